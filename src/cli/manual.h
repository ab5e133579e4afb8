/* manual.h -- man pages and shell completion, made from the tables of options and recipe keys. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "base/text.h"
#include "cli/cli.h"

/* In roff: plimsoll(1) for command NULL, plimsoll-COMMAND(1), and plimsoll-recipe(5). */
void manual_page(Text *to, const Command *command);
void manual_recipe(Text *to);

/* shell: bash, zsh or fish; E_USAGE for any other. */
Err completion_write(Text *to, const char *shell);

#endif
