/* Tests of base/yaml: what recipes may say, and the sentence for everything else. */
#include "base/yaml.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_out.h"
#include "test.h"

static Pool *pool;

static const Json *parse(const char *text)
{
    static const Json nothing;
    const Json       *root = &nothing;
    Err               err = yaml_parse(pool, "r.yaml", text, strlen(text), &root);
    if (!CHECK_INT(err, OK))
        fprintf(stderr, "  said: %s\n  the text was:\n%s\n", err_text(), text);
    return root;
}

static void same(const char *yaml, const char *json)
{
    Text    text = { .pool = pool };
    JsonOut o;
    json_out_text(&o, &text, JSON_COMPACT);
    json_out_value(&o, NULL, parse(yaml));
    CHECK_OK(json_out_done(&o));
    if (!CHECK_TEXT(text.at, json))
        fprintf(stderr, "  the recipe was:\n%s\n", yaml);
}

static void refuse(const char *text, const char *sentence)
{
    const Json *root;
    Err         err = yaml_parse(pool, "r.yaml", text, strlen(text), &root);
    if (!CHECK_INT(err, E_FORMAT))
        fprintf(stderr, "  the text was:\n%s\n", text);
    else if (!CHECK(!strncmp(err_text(), sentence, strlen(sentence))))
        fprintf(stderr, "  said:   %s\n  wanted: %s\n", err_text(), sentence);
}

static void scalars(void)
{
    same("", "null");
    same("# only a comment", "null");
    same("---\n", "null");
    same("~", "null");
    same("[null, Null, NULL, ~, nULL]", "[null,null,null,null,\"nULL\"]");
    same("[true, True, TRUE, false, False, FALSE, tRUE, yes, no, on, off]",
         "[true,true,true,false,false,false,\"tRUE\",\"yes\",\"no\",\"on\",\"off\"]");
    same("[0, -0, 7, +7, -7, 007, 1_000, 16_777_216, 9223372036854775807, -9223372036854775808]",
         "[0,-0.0,7,7,-7,7,1000,16777216,9223372036854775807,-9223372036854775808]");
    same("[1e-4, 1E4, 1.5, .5, 5., -1.5e+3, +.5, 1_000.5, 9223372036854775808]",
         "[0.0001,10000.0,1.5,0.5,5.0,-1500.0,0.5,1000.5,9.223372036854776e+18]");
    same("[.inf, -.inf, +.INF, .nan, -.nan]",
         "[\"Infinity\",\"-Infinity\",\"Infinity\",\"NaN\",\"-.nan\"]");
    same("[0x10, 0o17, 1__0, _1, 1_, 1e, e5, 1.2.3, '1', \"2\", ., 1-2, -x, ++1, 1:2]",
         "[\"0x10\",\"0o17\",\"1__0\",\"_1\",\"1_\",\"1e\",\"e5\",\"1.2.3\",\"1\",\"2\","
         "\".\",\"1-2\","
         "\"-x\",\"++1\",\"1:2\"]");
}

static void scalar_texts(void)
{
    same("a: hello world  # comment", "{\"a\":\"hello world\"}");
    same("a: hello#world", "{\"a\":\"hello#world\"}");
    same("a: http://x.y/z?q=1", "{\"a\":\"http://x.y/z?q=1\"}");
    same("a: x, y [z] {w}", "{\"a\":\"x, y [z] {w}\"}");
    same("a: 'it''s # not: a comment'  # yes", "{\"a\":\"it's # not: a comment\"}");
    same("a: \"x\\n\\t\\\"\\u00e9\\\\ # no\"", "{\"a\":\"x\\n\\t\\\"\xC3\xA9\\\\ # no\"}");
    same("a: ''\nb: \"\"", "{\"a\":\"\",\"b\":\"\"}");
    same("a: ''''", "{\"a\":\"'\"}");
    same("a: it's", "{\"a\":\"it's\"}");
    same("a: x\"y\"", "{\"a\":\"x\\\"y\\\"\"}");
    same("a: -1x\nb: ?x\nc: :x", "{\"a\":\"-1x\",\"b\":\"?x\",\"c\":\":x\"}");
    same("a: \xC3\xA9\xF0\x9F\x98\x80", "{\"a\":\"\xC3\xA9\xF0\x9F\x98\x80\"}");
    same("a: b-c_d.e/f\r\nb: 1\r\n", "{\"a\":\"b-c_d.e/f\",\"b\":1}");
}

static void blocks(void)
{
    same("a: 1\nb: 2\n", "{\"a\":1,\"b\":2}");
    same("---\n# top\n\na:\n  b:\n    c: 1\n  d: 2\n\n# end\ne: 3",
         "{\"a\":{\"b\":{\"c\":1},\"d\":2},\"e\":3}");
    same("a:\n- 1\n- 2\nb: 3", "{\"a\":[1,2],\"b\":3}");
    same("a:\n  - 1\n  - 2\nb: 3", "{\"a\":[1,2],\"b\":3}");
    same("- 1\n- two\n-\n- [3]\n- {x: 4}\n", "[1,\"two\",null,[3],{\"x\":4}]");
    same("- a: 1\n  b: 2\n- a: 3\n  b:\n    c: 4\n",
         "[{\"a\":1,\"b\":2},{\"a\":3,\"b\":{\"c\":4}}]");
    same("- - 1\n  - 2\n- - 3\n", "[[1,2],[3]]");
    same("- - - 1\n    - 2\n  - 3\n- 4", "[[[1,2],3],4]");
    same("-\n  a: 1\n-\n  - 2\n", "[{\"a\":1},[2]]");
    same("-   a: 1\n    b: 2\n", "[{\"a\":1,\"b\":2}]");
    same("a:\nb:\n  c:\n", "{\"a\":null,\"b\":{\"c\":null}}");
    same("a:\n    # deep comment\n  # other\n  b: 1\n# out\nc: 2", "{\"a\":{\"b\":1},\"c\":2}");
    same("a:\n  - x: 1\n    y:\n    - 2\n    - 3\n  - z", "{\"a\":[{\"x\":1,\"y\":[2,3]},\"z\"]}");
    same("a:\n  hello\nb:\n  [1,\n   2]\n", "{\"a\":\"hello\",\"b\":[1,2]}");
}

static void keys(void)
{
    same("'a b': 1\n\"c:\\td\": 2\ne f : 3\n1: 4\ntrue: 5\na.b-c: 6\nx#y: 7\n?x: 8\n-x: 9\n'': 10",
         "{\"a b\":1,\"c:\\td\":2,\"e f\":3,\"1\":4,\"true\":5,\"a.b-c\":6,\"x#y\":7,\"?x\":8,"
         "\"-x\":9,"
         "\"\":10}");
    same("a:b: 1", "{\"a:b\":1}");
}

static void flow(void)
{
    same("[]", "[]");
    same("{}", "{}");
    same("a: [1, [2, 3], {b: 4, c: [5]}, ]", "{\"a\":[1,[2,3],{\"b\":4,\"c\":[5]}]}");
    same("{a: 1, 'b': two words, \"c\":3, d: , e: }",
         "{\"a\":1,\"b\":\"two words\",\"c\":3,\"d\":null,\"e\":null}");
    same("a: [1, # one\n  2,\n\n  3\n]\nb: 4", "{\"a\":[1,2,3],\"b\":4}");
    same("a: {x: 1,\n y:\n  2}\nb: 4", "{\"a\":{\"x\":1,\"y\":2},\"b\":4}");
    same("[a:b, http://x, -1, 'x, y', \"]\"]", "[\"a:b\",\"http://x\",-1,\"x, y\",\"]\"]");
    same("{\"a\":[1,2,{\"b\":null}],\"c\":\"d\"}", "{\"a\":[1,2,{\"b\":null}],\"c\":\"d\"}");
    same("- [a, b]\n- {c: d}\n", "[[\"a\",\"b\"],{\"c\":\"d\"}]");
}

static void lines(void)
{
    const Json *r = parse("# one\na: 1\n\nb:\n  c: [1,\n     2]\n  d:\n    - x\n    - y: 3\n");
    const Json *b = json_get(r, "b"), *d = json_get(b, "d");
    CHECK_INT(json_get(r, "a")->line, 2);
    CHECK_INT(b->line, 4);
    CHECK_INT(json_get(b, "c")->line, 5);
    CHECK_INT(json_get(b, "c")->items[1].line, 6);
    CHECK_INT(d->line, 7);
    CHECK_INT(d->items[0].line, 8);
    CHECK_INT(json_get(&d->items[1], "y")->line, 9);

    static const char *const known[] = { "batch", "precision", "model" };
    r = parse("model: x\n\nbacth: 4\n");
    CHECK_INT(json_check_keys(r, known, 3), E_USAGE);
    CHECK_TEXT(err_text(), "r.yaml:3: unknown key 'bacth', did you mean 'batch'?");
    int64_t n;
    CHECK_INT(json_need_int(parse("a: 1\nbatch: four"), "batch", &n), E_USAGE);
    CHECK_TEXT(err_text(), "r.yaml:2: 'batch' must be a whole number, not the text 'four'");
    double x;
    CHECK_INT(json_need_number(parse("lr: .inf"), "lr", &x), E_USAGE);
}

static void refused_yaml(void)
{
    refuse("a: &x 1", "r.yaml:1:4: anchors (&name) are not read; write the value where");
    refuse("a: *x", "r.yaml:1:4: aliases (*name) are not read");
    refuse("a: !!int 1", "r.yaml:1:4: tags (!name) are not read");
    refuse("a: |\n  text", "r.yaml:1:4: block texts (|) are not read");
    refuse("a: >-\n  text", "r.yaml:1:4: block texts (>) are not read");
    refuse("%YAML 1.2\n---\na: 1", "r.yaml:1:1: directives (%) are not read");
    refuse("a: @x", "r.yaml:1:4: a text may not start with '@'; put it in quotes");
    refuse("a: `x`", "r.yaml:1:4: a text may not start with '`'");
    refuse("? a\n: b", "r.yaml:1:1: complex keys (?) are not read");
    refuse("<<: x", "r.yaml:1:1: merge keys (<<) are not read");
    refuse("- &x a", "r.yaml:1:3: anchors");
    refuse("&x a: 1", "r.yaml:1:1: anchors");
    refuse("[*a]", "r.yaml:1:2: aliases");
    refuse("{a: !x 1}", "r.yaml:1:5: tags");
    refuse("a: 1\n---\nb: 2", "r.yaml:2:1: '---': a recipe is one document");
    refuse("---\n---\n", "r.yaml:2:1: '---': a recipe is one document");
    refuse("a: 1\n...\n", "r.yaml:2:1: '...': a recipe is one document");
    refuse("--- a: 1", "r.yaml:1:5: write '---' alone on its line");
    refuse("a:\n\tb: 1", "r.yaml:2:1: a tab; write spaces instead");
    refuse("a:\tb", "r.yaml:1:3: a tab; write spaces instead");
    refuse("a: b\tc", "r.yaml:1:5: a tab; write spaces instead");
    refuse("a: [1,\t2]", "r.yaml:1:7: a tab; write spaces instead");
    refuse("\xEF\xBB\xBF"
           "a: 1",
           "r.yaml:1:1: the text starts with a byte order mark");
    refuse("a: \xFF", "r.yaml:1:4: byte 0xFF is not valid UTF-8");
    refuse("a: 1\rb: 2", "r.yaml:1:5: control character 0x0D; remove it");
    refuse("a: \x01", "r.yaml:1:4: control character 0x01");
    const Json *root;
    CHECK_INT(yaml_parse(pool, "r.yaml", "a: \0b", 5, &root), E_FORMAT);
}

static void refused_structure(void)
{
    refuse("a: 1\na: 2", "r.yaml:2:1: the key 'a' is here a second time");
    refuse("{a: 1, 'a': 2}", "r.yaml:1:8: the key 'a' is here a second time");
    refuse("a: 1\n  b: 2", "r.yaml:2:3: this line is indented by 2, the lines it belongs to by 0");
    refuse("a:\n    b: 1\n  c: 2",
           "r.yaml:3:3: this line is indented by 2, the lines it belongs to by 0");
    refuse("  a: 1\nb: 2", "r.yaml:2:1: this line belongs to nothing above it");
    refuse("a: some text\n  continued", "r.yaml:2:3: this line is indented");
    refuse("a:\n  some\n  text", "r.yaml:3:3: this line is indented");
    refuse("some\ntext", "r.yaml:2:1: this line belongs to nothing");
    same("a:1", "\"a:1\"");
    refuse("[a]: x", "r.yaml:1:4: unexpected ':' after the value");
    refuse("a: 1\nb:2", "r.yaml:2:1: expected 'key: value', with a space after the colon");
    refuse("a: 1\n- b", "r.yaml:2:1: a list item where a key is expected");
    refuse("- a\nb: 1", "r.yaml:2:1: this line belongs to nothing above it");
    refuse("- a\n  - b", "r.yaml:2:3: this line is indented by 2");
    refuse("- a: 1\n   b: 2",
           "r.yaml:2:4: this line is indented by 3, the lines it belongs to by 2");
    refuse("a: b: c", "r.yaml:1:5: ': ' inside a value; put the text in quotes");
    refuse("a: - b", "r.yaml:1:4: a list item may not stand here");
    refuse(": b", "r.yaml:1:1: a key is missing before ':'");
    refuse("a: ]", "r.yaml:1:4: unexpected ']'");
    refuse("a: 'x' y", "r.yaml:1:8: unexpected 'y' after the value");
    refuse("a: \"x\"#y", "r.yaml:1:7: unexpected '#' after the value");
    refuse("a: [1] 2", "r.yaml:1:8: unexpected '2' after the value");
    refuse("a: [1", "r.yaml:1:4: this '[' is never closed by ']'");
    refuse("a: {x: 1", "r.yaml:1:4: this '{' is never closed by '}'");
    refuse("a: {x: ", "r.yaml:1:8: expected a value, but the text ends here");
    refuse("a: [1 }", "r.yaml:1:7: expected ',' or ']'");
    refuse("a: [, 1]", "r.yaml:1:5: unexpected ','");
    refuse("a: [1,, 1]", "r.yaml:1:7: unexpected ','");
    refuse("a: [#x]", "r.yaml:1:5: unexpected '#'");
    refuse("a: [b: 1]", "r.yaml:1:6: 'key: value' inside [ ]; write [{key: value}]");
    refuse("a: {b}", "r.yaml:1:6: expected ': ' and a value after the key 'b'");
    refuse("a: {b, c: 1}", "r.yaml:1:6: expected ': ' and a value after the key 'b'");
    refuse("a: {b:1}", "r.yaml:1:8: expected ': ' and a value after the key 'b:1'");
    refuse("a: {:}", "r.yaml:1:5: a key is missing before ':'");
    refuse("a: [-, 1]", "r.yaml:1:5: a list item may not stand here");
    refuse("a: [- 1]", "r.yaml:1:5: a list item may not stand here");
    refuse("a: [:]", "r.yaml:1:5: a key is missing before ':'");
    refuse("a: 'x", "r.yaml:1:4: this text has no closing quote on its line");
    refuse("a: 'x\n  y'", "r.yaml:1:4: this text has no closing quote on its line");
    refuse("a: \"x\n y\"", "r.yaml:1:6: the line ends inside a text");
    refuse("a: \"\\q\"", "r.yaml:1:5: unknown escape");
    refuse("a: 1e999", "r.yaml:1:4: 1e999 is too large");
}

static void odd_sizes(void)
{
    Text        text = { .pool = pool };
    const Json *root;
    for (int i = 0; i < 500; i++)
        text_add(&text, "- ");
    CHECK_OK(yaml_parse(pool, "deep", text.at, text.n, &root));
    text_add(&text, "- - - - - - - - - - - - - - - - - - - - - - - - ");
    CHECK_INT(yaml_parse(pool, "deep", text.at, text.n, &root), E_FORMAT);
    text.n = 0;
    for (int i = 0; i < 100000; i++)
        text_add(&text, "[");
    CHECK_INT(yaml_parse(pool, "deep", text.at, text.n, &root), E_FORMAT);
    text.n = 0;
    text_add(&text, "a: 1");
    for (int i = 0; i < 400; i++) /* read from a copy without '_' */
        text_add(&text, "_000");
    CHECK_INT(yaml_parse(pool, "r.yaml", text.at, text.n, &root), E_FORMAT);
    CHECK(strstr(err_text(), "r.yaml:1:4: 1000000000000000000000000000000000000000... is too") !=
          NULL);
    text.n = 0;
    for (int i = 0; i < 5000; i++)
        text_add(&text, "key%d: {value: %d}\n", i, i);
    CHECK_INT(json_get(json_get(parse(text.at), "key4999"), "value")->integer, 4999);
}

static void every_cut_ends_in_a_sentence(void)
{
    const char *text = "---\na: [1, {b: 'x''y'}] # c\nd:\n  - e: \"f\\n\"\n    g:\n"
                       "    - -1.5\n  - h\r\n'i': ~\n";
    const Json *root;
    same(text,
         "{\"a\":[1,{\"b\":\"x'y\"}],\"d\":[{\"e\":\"f\\n\",\"g\":[-1.5]},\"h\"],\"i\":null}");
    for (size_t n = 0; n < strlen(text); n++) {
        char *copy = malloc(n ? n : 1); /* a sanitizer sees any byte read behind it */
        memcpy(copy, text, n);
        Err err = yaml_parse(pool, "cut", copy, n, &root);
        CHECK(err == OK || (err == E_FORMAT && !strncmp(err_text(), "cut:", 4)));
        free(copy);
    }
}

static void files(void)
{
    char        path[64];
    const Json *root;
    snprintf(path, sizeof path, "test_yaml_%ld.yaml", (long)getpid());
    CHECK_INT(yaml_read(pool, path, &root), E_IO);
    CHECK_OK(file_write(path, "model: dit3d\nbatch: 2\n", 22));
    CHECK_OK(yaml_read(pool, path, &root));
    CHECK_INT(json_get(root, "batch")->integer, 2);
    CHECK_TEXT(json_name(root), path);
    CHECK_OK(file_remove(path));
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(scalars);
    RUN(scalar_texts);
    RUN(blocks);
    RUN(keys);
    RUN(flow);
    RUN(lines);
    RUN(refused_yaml);
    RUN(refused_structure);
    RUN(odd_sizes);
    RUN(every_cut_ends_in_a_sentence);
    RUN(files);
    pool_free(pool);
    return test_end();
}
