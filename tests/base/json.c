/* Tests of base/json: the parser, the helpers that ask the tree, the writer. */
#include "base/json.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_out.h"
#include "test.h"

static Pool *pool;

static const Json *parse(const char *text)
{
    static const Json nothing;
    const Json       *root = &nothing;
    CHECK_OK(json_parse(pool, "t.json", text, strlen(text), 0, &root));
    return root;
}

static void refuse(const char *text, const char *sentence)
{
    const Json *root;
    Err         err = json_parse(pool, "t.json", text, strlen(text), 0, &root);
    if (!CHECK_INT(err, E_FORMAT))
        fprintf(stderr, "  the text was: %s\n", text);
    else if (!CHECK(!strncmp(err_text(), sentence, strlen(sentence))))
        fprintf(stderr, "  said:   %s\n  wanted: %s\n", err_text(), sentence);
}

static const char *written(const Json *value, JsonStyle style)
{
    Text    text = { .pool = pool };
    JsonOut o;
    json_out_text(&o, &text, style);
    json_out_value(&o, NULL, value);
    CHECK_OK(json_out_done(&o));
    return text.at;
}

static void kinds(void)
{
    CHECK_INT(parse("null")->kind, JSON_NULL);
    CHECK_INT(parse(" true ")->truth, 1);
    CHECK_INT(parse("false")->truth, 0);
    CHECK_INT(parse("false")->kind, JSON_BOOL);
    CHECK_INT(parse("\r\n\t 17")->integer, 17);
    CHECK_INT(parse("\r\n\t 17")->line, 2);
    CHECK_TEXT(parse("\"\"")->text, "");
    CHECK_INT(parse("[]")->n, 0);
    CHECK_INT(parse("{}")->n, 0);
    const Json *a = parse("[1, [2, 3], {\"a\": [4]}]");
    CHECK_INT(a->n, 3);
    CHECK_INT(a->items[1].items[1].integer, 3);
    CHECK_INT(json_get(&a->items[2], "a")->items[0].integer, 4);
    CHECK(!json_get(&a->items[2], "b"));
    CHECK(!json_get(a, "a"));
    CHECK(!json_get(NULL, "a"));
    CHECK_TEXT(json_name(a), "t.json");
    CHECK_INT(sizeof(Json), 16);
}

static void ints_are_exact(void)
{
    CHECK_INT(parse("9223372036854775807")->integer, INT64_MAX);
    CHECK_INT(parse("-9223372036854775808")->integer, INT64_MIN);
    CHECK_INT(parse("9007199254740993")->integer, 9007199254740993);
    CHECK_INT(parse("-1")->kind, JSON_INT);
    static const char *const beyond[] = { "9223372036854775808",   "-9223372036854775809",
                                          "18446744073709551615",  "18446744073709551616",
                                          "184467440737095516160", "100000000000000000000000000000",
                                          "10000000000000000000" };
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        CHECK_INT(parse(beyond[i])->kind, JSON_NUMBER);
        CHECK(parse(beyond[i])->number == strtod(beyond[i], NULL));
    }
    CHECK_INT(parse("-0")->kind, JSON_NUMBER);
    CHECK(signbit(parse("-0")->number));
}

static void doubles_are_nearest(void)
{
    static const char *const numbers[] = {
        "0.1",
        "1e22",
        "1e23",
        "-1.5e-7",
        "123456789012345678901234567890.5",
        "4.9e-324",
        "2e-324",
        "1.7976931348623157e308",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "0.0",
        "-0.0",
        "1E+2",
        "1e-22",
        "1e-23",
        "9007199254740993.0",
        "9007199254740992.5",
        "0.000000000000000000001",
        "1e00000000000000000001",
        "1e-400",
        "0e999999999999",
        "3.141592653589793238462643383279502884",
        "8.5e-05",
        "1.0000000000000000000000000000000000000000000000000000000000000000000000000000000001",
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const Json *value = parse(numbers[i]);
        double      want = strtod(numbers[i], NULL);
        CHECK_INT(value->kind, JSON_NUMBER);
        if (!CHECK(!memcmp(&value->number, &want, 8)))
            fprintf(stderr, "  %s became %.17g\n", numbers[i], value->number);
    }
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++) { /* any bits: written, read, the same bits */
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t bits = state ^ state >> 29;
        double   value;
        char     text[40];
        memcpy(&value, &bits, 8);
        if (!isfinite(value))
            continue;
        text[json_number_text(text, value)] = '\0';
        const Json *back = parse(text);
        if (back->kind != JSON_NUMBER || memcmp(&back->number, &value, 8) != 0) {
            CHECK(0);
            fprintf(stderr, "  %s\n", text);
        }
    }
}

static void texts(void)
{
    CHECK_TEXT(parse("\"a\\\"\\\\\\/\\b\\f\\n\\r\\tz\"")->text, "a\"\\/\b\f\n\r\tz");
    CHECK_TEXT(parse("\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"")->text,
               "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    CHECK_TEXT(parse("\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xEE\x80\x80\xF4\x8F\xBF\xBF\"")->text,
               "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xEE\x80\x80\xF4\x8F\xBF\xBF");
    CHECK_INT(parse("\"12345678\\u00e9\"")->n, 10);
    char text[80];
    for (int n = 0; n < 40; n++) /* the quote at every place of an eight-byte word */
        for (int special = 0; special < n; special++) {
            memset(text, 'x', sizeof text);
            text[0] = text[n + 1] = '"';
            text[n + 2] = '\0';
            text[1 + special] = 0x7F;
            CHECK_INT(parse(text)->n, n);
        }
}

static void bad_texts(void)
{
    refuse("\"abc", "t.json:1:1: this text has no closing quote");
    refuse("\"abc\\", "t.json:1:1: this text has no closing quote");
    refuse("\"abc\\\"", "t.json:1:1: this text has no closing quote");
    refuse("\"a\nb\"", "t.json:1:3: the line ends inside a text");
    refuse("\"a\tb\"", "t.json:1:3: control character inside a text; write it as \\u0009");
    refuse("\"12345678\x01\"", "t.json:1:10: control character");
    refuse("\"\\x\"", "t.json:1:2: unknown escape");
    refuse("\"\\\xC3\xA9\"", "t.json:1:2: unknown escape");
    refuse("\"\\u12g4\"", "t.json:1:2: \\u needs four");
    refuse("\"\\u12", "t.json:1:1: this text has no closing quote");
    refuse("\"\\ud83d\"", "t.json:1:2: \\uD83D is half a character");
    refuse("\"\\ud83d\\n\"", "t.json:1:2: \\uD83D is half a character");
    refuse("\"\\ud83d\\u0041\"", "t.json:1:2: \\uD83D is half a character");
    refuse("\"\\ude00\"", "t.json:1:2: \\uDE00 is half a character");
    refuse("\"\\u0000\"", "t.json:1:2: \\u0000 is not accepted");
    static const char *const bad[] = { "\x80",
                                       "\xC0\x80",
                                       "\xC1\xBF",
                                       "\xE0\x9F\xBF",
                                       "\xED\xA0\x80",
                                       "\xF0\x8F\xBF\xBF",
                                       "\xF4\x90\x80\x80",
                                       "\xF5\x80\x80\x80",
                                       "\xFF",
                                       "\xC3",
                                       "\xE2\x82",
                                       "\xF0\x9F\x98" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[32];
        snprintf(text, sizeof text, "[\"ab%s\"]", bad[i]);
        refuse(text, "t.json:1:5: byte 0x");
    }
    const Json *root;
    CHECK_INT(json_parse(pool, "t.json", "\"a\0b\"", 5, 0, &root), E_FORMAT);
}

static void bad_structure(void)
{
    refuse("", "t.json:1:1: expected a value, but the text ends here");
    refuse("  \n ", "t.json:2:2: expected a value, but the text ends here");
    refuse("[1,\n 2,]",
           "t.json:2:4: expected a value after ',', found ']'; is there a comma too many");
    refuse("[1 2]", "t.json:1:4: expected ',' or ']', found '2'");
    refuse("[1", "t.json:1:3: expected ',' or ']', but the text ends here");
    refuse("[", "t.json:1:2: expected a value, but");
    refuse("]", "t.json:1:1: expected a value, found ']'");
    refuse("[}", "t.json:1:2: expected a value, found '}'");
    refuse("{", "t.json:1:2: expected a key in double quotes, but");
    refuse("{\"a\"}", "t.json:1:5: expected ':' after the key, found '}'");
    refuse("{\"a\":}", "t.json:1:6: expected a value, found '}'");
    refuse("{\"a\":1,}", "t.json:1:8: expected a key after ','");
    refuse("{\"a\":1 \"b\":2}", "t.json:1:8: expected ',' or '}'");
    refuse("{a:1}", "t.json:1:2: expected a key in double quotes, found 'a'");
    refuse("{1:1}", "t.json:1:2: expected a key in double quotes, found '1'");
    refuse("['a']", "t.json:1:2: expected a value, found '''; write texts in double quotes");
    refuse("[1] // x",
           "t.json:1:5: expected the end after the value, found '/'; JSON has no comments");
    refuse("1 2", "t.json:1:3: expected the end after the value, found '2'");
    refuse("tru", "t.json:1:1: expected a value, found 't'");
    refuse("[truex]", "t.json:1:6: expected ',' or ']', found 'x'");
    refuse("nul", "t.json:1:1: expected a value");
    refuse("\xEF\xBB\xBF{}", "t.json:1:1: the text starts with a byte order mark");
    refuse("[\xC3\xA9]", "t.json:1:2: expected a value, found '\xC3\xA9'");
    refuse("[\"\xC3\xA9\", x]", "t.json:1:7: expected a value, found 'x'");
    refuse("[\x01]", "t.json:1:2: expected a value, found the byte 0x01");
    refuse("{\"a\": 1,\n \"b\": 2, \"a\": 3}", "t.json:2:10: the key 'a' is here a second time");
    refuse("{\"a\": 1, \"\\u0061\": 3}", "t.json:1:10: the key 'a' is here a second time");
    refuse("{\"\": 1, \"\": 3}", "t.json:1:9: the key '' is here a second time");
    refuse("{\"a\": {\"a\": {\"a\": 1}}, \"a\": 1}", "t.json:1:24: the key 'a'");
}

static void bad_numbers(void)
{
    refuse("01", "t.json:1:1: a number may not start with 0");
    refuse("-01", "t.json:1:1: a number may not start with 0");
    refuse("-", "t.json:1:1: a number needs a digit after '-'");
    refuse("-x", "t.json:1:1: a number needs a digit after '-'");
    refuse("1.", "t.json:1:1: a number needs a digit after '.'");
    refuse("1.e5", "t.json:1:1: a number needs a digit after '.'");
    refuse(".5", "t.json:1:1: expected a value, found '.'");
    refuse("+5", "t.json:1:1: expected a value, found '+'");
    refuse("1e", "t.json:1:1: a number needs a digit in its exponent");
    refuse("1e+", "t.json:1:1: a number needs a digit in its exponent");
    refuse("[0x10]", "t.json:1:3: expected ',' or ']', found 'x'");
    refuse("1e309", "t.json:1:1: 1e309 is too large");
    refuse("-1e99999", "t.json:1:1: -1e99999 is too large");
    char digits[400];
    memset(digits, '9', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    refuse(digits, "t.json:1:1: 9999999999999999999999999999999999999999... is too large");
    refuse("NaN", "t.json:1:1: NaN is not a JSON number");
    refuse("[-Infinity]", "t.json:1:2: -Infinity is not a JSON number");
    refuse("[Inf]", "t.json:1:2: expected a value");
    refuse("-Inf", "t.json:1:1: expected a value");
    const Json *root;
    const char *text = "[NaN, Infinity, -Infinity, 1]";
    CHECK_OK(json_parse(pool, "t.json", text, strlen(text), JSON_ALLOW_NAN, &root));
    CHECK(isnan(root->items[0].number));
    CHECK(root->items[1].number > 1e308 && root->items[2].number < -1e308);
    CHECK_TEXT(written(root, JSON_COMPACT), "[\"NaN\",\"Infinity\",\"-Infinity\",1]");
    double number;
    CHECK_INT(json_item_number(root, 0, &number), E_FORMAT);
}

static void depth(void)
{
    enum { N = 100000 };
    char       *text = NEWN(pool, char, 2 * N + 1);
    const Json *root;
    for (int depth = JSON_MAX_DEPTH; depth <= JSON_MAX_DEPTH + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        Err err = json_parse(pool, "deep", text, 2 * (size_t)depth, 0, &root);
        CHECK_INT(err, depth == JSON_MAX_DEPTH ? OK : E_FORMAT);
        if (!err)
            CHECK_INT(strlen(written(root, JSON_COMPACT)), 2 * depth);
    }
    CHECK(strstr(err_text(), "deep:1:513: more than 512 arrays") != NULL);
    memset(text, '[', N);
    CHECK_INT(json_parse(pool, "deep", text, N, 0, &root), E_FORMAT);
    for (int i = 0; i < N / 5; i++)
        memcpy(text + 5 * i, "{\"\":", 5);
    CHECK_INT(json_parse(pool, "deep", text, 4, 0, &root), E_FORMAT);
}

static void every_cut_is_refused(void)
{
    const char *text = "{\"a\": [1, -2.5e3, true, null], \"b\": {\"c\": \"\\u00e9\xE2\x82\xAC\"}}";
    const Json *root;
    for (size_t n = 0; n < strlen(text); n++) {
        char *copy = malloc(n ? n : 1); /* a sanitizer sees any byte read behind it */
        memcpy(copy, text, n);
        CHECK_INT(json_parse(pool, "cut", copy, n, 0, &root), E_FORMAT);
        free(copy);
    }
}

static void large_objects_are_found_by_key(void)
{
    Text text = { .pool = pool };
    for (int n = 0; n < 3000; n = n < 40 ? n + 1 : n * 2) {
        text.n = 0;
        text_add(&text, "{");
        for (int i = 0; i < n; i++)
            text_add(&text, "%s\"key%d\": %d", i ? ", " : "", i, i);
        text_add(&text, "}");
        const Json *object = parse(text.at);
        for (int i = 0; i < n; i++) {
            char key[20];
            snprintf(key, sizeof key, "key%d", i);
            const Json *value = json_get(object, key);
            CHECK(value && value->integer == i);
        }
        CHECK(!json_get(object, "key"));
        CHECK(!json_get(object, "key3000"));
    }
    text.n--;
    text_add(&text, ", \"key0\": 1}");
    CHECK_INT(json_parse(pool, "t", text.at, text.n, 0, &(const Json *){ 0 }), E_FORMAT);
}

static void needs(void)
{
    const Json *o = parse("{\"i\": 5,\n\"x\": 2.5, \"e\": 1e5,\n\"t\": \"word\", \"b\": true,\n"
                          "\"a\": [1, \"two\", 3.5],\n"
                          "\"o\": {\"k\": 1}, \"big\": 1e300, \"n\": null}");
    int64_t     i = 0;
    double      x = 0;
    const char *t = NULL;
    bool        b = false;
    const Json *a = NULL;
    CHECK_OK(json_need_int(o, "i", &i));
    CHECK_INT(i, 5);
    CHECK_OK(json_need_int(o, "e", &i));
    CHECK_INT(i, 100000);
    CHECK_OK(json_need_number(o, "x", &x));
    CHECK_NEAR(x, 2.5, 0);
    CHECK_OK(json_need_number(o, "i", &x));
    CHECK_NEAR(x, 5, 0);
    CHECK_OK(json_need_text(o, "t", &t));
    CHECK_TEXT(t, "word");
    CHECK_OK(json_need_bool(o, "b", &b));
    CHECK(b);
    CHECK_OK(json_need_object(o, "o", &a));
    CHECK_OK(json_need_array(o, "a", &a));
    CHECK_OK(json_item_int(a, 0, &i));
    CHECK_OK(json_item_text(a, 1, &t));
    CHECK_OK(json_item_number(a, 2, &x));
    CHECK_INT(json_item_int(a, 1, &i), E_FORMAT);
    CHECK_TEXT(err_text(),
               "t.json:4: item 2 of the array must be a whole number, not the text 'two'");
    CHECK_INT(json_need_int(o, "x", &i), E_FORMAT);
    CHECK_TEXT(err_text(), "t.json:2: 'x' must be a whole number, not 2.5");
    CHECK_INT(json_need_int(o, "big", &i), E_FORMAT);
    CHECK_INT(json_need_int(o, "none", &i), E_FORMAT);
    CHECK_TEXT(err_text(), "t.json:1: 'none' is missing; it must be a whole number");
    CHECK_INT(json_need_text(o, "i", &t), E_FORMAT);
    CHECK_TEXT(err_text(), "t.json:1: 'i' must be a text, not 5");
    CHECK_INT(json_need_array(o, "o", &a), E_FORMAT);
    CHECK_TEXT(err_text(), "t.json:5: 'o' must be an array, not an object");
    CHECK_INT(json_need_bool(o, "n", &b), E_FORMAT);
    CHECK_TEXT(err_text(), "t.json:5: 'n' must be true or false, not null");
    CHECK_INT(json_need_number(a, "n", &x), E_FORMAT);
    CHECK_INT(json_need_number(json_get(o, "i"), "n", &x), E_FORMAT);
    CHECK_TEXT(err_text(), "line 1: an object with 'n' must stand here, not 5");
    i = 42;
    CHECK_OK(json_maybe_int(o, "none", &i));
    CHECK_INT(i, 42);
    CHECK_OK(json_maybe_int(o, "i", &i));
    CHECK_INT(i, 5);
    CHECK_INT(json_maybe_int(o, "t", &i), E_FORMAT);
    CHECK_INT(json_maybe_text(o, "i", &t), E_FORMAT);
    static const char *const keys[] = { "i", "x", "e", "t", "b", "a", "o", "big", "n" };
    CHECK_OK(json_check_keys(o, keys, 9));
    CHECK_INT(json_check_keys(parse("{\"batch\": 1,\n\"bacth\": 2}"),
                              (const char *const[]){ "batch" }, 1),
              E_FORMAT);
    CHECK_TEXT(err_text(), "t.json:2: unknown key 'bacth', did you mean 'batch'?");
    CHECK_INT(json_check_keys(parse("{\"zzzzzz\": 2}"), keys, 9), E_FORMAT);
    CHECK_TEXT(err_text(),
               "t.json:1: unknown key 'zzzzzz'; the keys here are i, x, e, t, b, a, o, big, n");
}

static void writer(void)
{
    Text    text = { .pool = pool };
    JsonOut o;
    json_out_text(&o, &text, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_int(&o, "smallest", INT64_MIN);
    json_out_int(&o, "largest", INT64_MAX);
    json_out_number(&o, "one", 1);
    json_out_number(&o, "tenth", 0.1);
    json_out_number(&o, "tiny", 5e-324);
    json_out_number(&o, "huge", 1e300);
    json_out_number(&o, "minus zero", -0.0);
    json_out_number(&o, "nan", (double)NAN);
    json_out_bool(&o, "b", true);
    json_out_null(&o, "n");
    json_out_string(&o, "missing", NULL);
    json_out_string(&o, "quote\"d", "a\"\\\n\x01\x7F\xC3\xA9\xFFz");
    json_out_array(&o, "empty");
    json_out_end(&o);
    json_out_object(&o, "none");
    json_out_end(&o);
    json_out_array(&o, "list");
    json_out_row(&o, NULL);
    json_out_int(&o, NULL, 1);
    json_out_row(&o, NULL);
    json_out_string(&o, NULL, "x");
    json_out_end(&o);
    json_out_object_row(&o, NULL);
    json_out_int(&o, "k", 2);
    json_out_int(&o, "l", 3);
    json_out_end(&o);
    json_out_end(&o);
    json_out_int(&o, NULL, 4);
    json_out_end(&o);
    json_out_end(&o);
    CHECK_OK(json_out_done(&o));
    CHECK_TEXT(text.at, "{\n"
                        "  \"smallest\": -9223372036854775808,\n"
                        "  \"largest\": 9223372036854775807,\n"
                        "  \"one\": 1.0,\n"
                        "  \"tenth\": 0.1,\n"
                        "  \"tiny\": 4.94065645841247e-324,\n"
                        "  \"huge\": 1e+300,\n"
                        "  \"minus zero\": -0.0,\n"
                        "  \"nan\": \"NaN\",\n"
                        "  \"b\": true,\n"
                        "  \"n\": null,\n"
                        "  \"missing\": null,\n"
                        "  \"quote\\\"d\": \"a\\\"\\\\\\n\\u0001\x7F\xC3\xA9\xEF\xBF\xBDz\",\n"
                        "  \"empty\": [],\n"
                        "  \"none\": {},\n"
                        "  \"list\": [\n"
                        "    [1, [\"x\"], {\"k\": 2, \"l\": 3}],\n"
                        "    4\n"
                        "  ]\n"
                        "}\n");
    const Json *back = parse(text.at);
    CHECK_INT(json_get(back, "smallest")->integer, INT64_MIN);
    CHECK_INT(json_get(back, "one")->kind, JSON_NUMBER);
    CHECK_TEXT(written(parse(written(back, JSON_PRETTY)), JSON_COMPACT),
               written(back, JSON_COMPACT));
    CHECK_TEXT(written(parse("{\"a\":[1,{\"b\":[]}],\"c\":\"x\"}"), JSON_COMPACT),
               "{\"a\":[1,{\"b\":[]}],\"c\":\"x\"}");
    CHECK_TEXT(written(parse("\"x\""), JSON_PRETTY), "\"x\"\n");
}

static void full_disk_is_reported(void)
{
    FILE *full = fopen("/dev/full", "w");
    if (!full)
        return;
    JsonOut o;
    json_out_stream(&o, full, JSON_COMPACT);
    json_out_int(&o, NULL, 1);
    CHECK_INT(json_out_done(&o), E_IO);
    CHECK_TEXT(err_text(), "cannot write the JSON output: No space left on device");
    fclose(full);
}

static void files(void)
{
    const Json *root;
    char        path[64];
    snprintf(path, sizeof path, "test_json_%ld.json", (long)getpid());
    CHECK_INT(json_read(pool, path, 0, &root), E_IO);
    FileOut out;
    JsonOut o;
    CHECK_OK(file_out_init(&out, path));
    json_out_file(&o, &out, JSON_PRETTY);
    json_out_row(&o, NULL);
    for (int i = 0; i < 30000; i++)
        json_out_int(&o, NULL, i);
    json_out_end(&o);
    CHECK_OK(json_out_done(&o));
    CHECK_OK(file_out_done(&out, OK));
    CHECK_OK(json_read(pool, path, 0, &root));
    CHECK_INT(root->n, 30000);
    CHECK_INT(root->items[29999].integer, 29999);
    CHECK_OK(file_remove(path));
}

/* A graph of 20,000 nodes with names and lists, as the engine writes it: about 20 MB. */
static void speed_and_size(void)
{
    Text    text = { .pool = pool_new(pool, "graph") };
    JsonOut o;
    json_out_text(&o, &text, JSON_PRETTY);
    json_out_object(&o, NULL);
    json_out_array(&o, "nodes");
    for (int i = 0; i < 20000; i++) {
        char name[80];
        json_out_object(&o, NULL);
        json_out_int(&o, "id", i);
        snprintf(name, sizeof name, "blocks.%d.attention.projection.weight_%d", i / 20, i);
        json_out_string(&o, "name", name);
        json_out_number(&o, "cost", 12345.678 * i);
        json_out_array(&o, "values");
        for (int v = 0; v < 9; v++) {
            json_out_object_row(&o, NULL);
            json_out_int(&o, "id", 9 * i + v);
            json_out_int(&o, "bytes", 1048576 + v);
            json_out_bool(&o, "persistent", v == 3);
            json_out_row(&o, "shape");
            json_out_int(&o, NULL, 16);
            json_out_int(&o, NULL, 1024);
            json_out_end(&o);
            json_out_end(&o);
        }
        json_out_end(&o);
        json_out_row(&o, "inputs");
        for (int v = 0; v < 16; v++)
            json_out_int(&o, NULL, i * 7 + v);
        json_out_end(&o);
        json_out_end(&o);
    }
    json_out_end(&o);
    json_out_end(&o);
    CHECK_OK(json_out_done(&o));

    Pool       *tree = pool_new(pool, "tree");
    const Json *root;
    double      start = clock_now();
    CHECK_OK(json_parse(tree, "graph", text.at, text.n, 0, &root));
    double seconds = clock_now() - start;
    printf("parsed %.1f MB in %.0f ms: %.0f MB/s, tree %.2f x the text\n", (double)text.n * 1e-6,
           seconds * 1e3, (double)text.n * 1e-6 / seconds,
           (double)pool_bytes(tree) / (double)text.n);
    CHECK_INT(json_get(root, "nodes")->n, 20000);
    CHECK(pool_bytes(tree) < 4 * text.n);
    pool_free(tree);
}

int main(void)
{
    pool = pool_new(NULL, "test");
    RUN(kinds);
    RUN(ints_are_exact);
    RUN(doubles_are_nearest);
    RUN(texts);
    RUN(bad_texts);
    RUN(bad_structure);
    RUN(bad_numbers);
    RUN(depth);
    RUN(every_cut_is_refused);
    RUN(large_objects_are_found_by_key);
    RUN(needs);
    RUN(writer);
    RUN(full_disk_is_reported);
    RUN(files);
    RUN(speed_and_size);
    pool_free(pool);
    return test_end();
}
