/* Tests of text/html_text: references replaced as html.unescape of Python replaces them. */
#include "test.h"

#include "text/html_text.h"

static const char list[] = "amp 26\namp;  26\ncopy a9\ncopy; a9\nne; 3d 338\nnot ac\nnotin; 2209\n";

static const char *unescaped(Pool *pool, const char *text)
{
    HtmlNames names;
    Text      out = { .pool = pool };
    CHECK_OK(html_names_parse(pool, "list", list, sizeof list - 1, &names));
    html_unescape(&names, text, strlen(text), &out);
    return out.at;
}

static void names(void)
{
    Pool *pool = pool_new(NULL, "test");
    CHECK_TEXT(unescaped(pool, ""), "");
    CHECK_TEXT(unescaped(pool, "a &amp; b &amp;amp; c"), "a & b &amp; c");
    CHECK_TEXT(unescaped(pool, "&copyright &copy; &ne;"), "\xc2\xa9right \xc2\xa9 =\xcc\xb8");
    /* the longest name that is known, not the first */
    CHECK_TEXT(unescaped(pool, "&notin; &notit; &not"), "\xe2\x88\x89 \xc2\xacit; \xc2\xac");
    CHECK_TEXT(unescaped(pool, "&nosuch; & &; && &"), "&nosuch; & &; && &");
    pool_free(pool);
}

static void numbers(void)
{
    Pool *pool = pool_new(NULL, "test");
    CHECK_TEXT(unescaped(pool, "&#60;&#x3C;&#x3c&#600"), "<<<\xc9\x98");
    CHECK_TEXT(unescaped(pool, "&#;&#x;&#xg;&# 1;"), "&#;&#x;&#xg;&# 1;");
    CHECK_TEXT(unescaped(pool, "&#128;|&#0;|&#xd800;|&#99999999999999999999;"),
               "\xe2\x82\xac|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd");
    CHECK_TEXT(unescaped(pool, "[&#1;&#xfffe;&#x7f;&#xb;]&#10;"), "[]\n"); /* no text has these */
    pool_free(pool);
}

static void refused(void)
{
    static const char *const bad[] = {
        "amp\n",        " 26\n",   "amp \n",       "amp zz\n",
        "amp 110000\n", "amp 0\n", "b 26\na 26\n", "amp 26\namp 27\n"
    };
    Pool     *pool = pool_new(NULL, "test");
    HtmlNames out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(html_names_parse(pool, "list", bad[i], strlen(bad[i]), &out), E_FORMAT);
    pool_free(pool);
}

int main(void)
{
    RUN(names);
    RUN(numbers);
    RUN(refused);
    return test_end();
}
