/* yaml.h -- recipes: a strict subset of YAML 1.2, read into the tree of base/json.h.
 *
 * Block mappings and sequences by indentation, flow [..] and {..}, plain, 'single' and "double"
 * quoted scalars, comments, one '---' at the top. Anchors, tags, further documents, block texts
 * (| and >), complex keys, tabs outside quotes and texts over several lines are refused, each with
 * a sentence that names the line and what to write instead. docs/FORMATS.md has the grammar.
 *
 * Syntax errors are E_FORMAT; what json_need_* and json_check_keys find in such a tree is E_USAGE,
 * because a recipe is something the user wrote.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/json.h"

/* A text that is one scalar or flow collection gives that value: --set lr=1e-4 is read so. */
Err yaml_parse(Pool *pool, const char *name, const char *bytes, size_t n, const Json **out);
Err yaml_read(Pool *pool, const char *path, const Json **out);

#endif
