/* completion.c -- what a shell needs to complete commands, options, names and recipe keys.
 *
 * Names that depend on the machine (recipes, devices) are asked of `plimsoll list` when they are
 * needed; all else is written into the script. */
#include "cli/manual.h"

#include "recipe/recipe.h"

#include <string.h>

/* What follows an option, or is an argument of a command. */
typedef enum ValueKind {
    VALUE_ANY,
    VALUE_FILE,
    VALUE_WORDS,
    VALUE_RECIPE,
    VALUE_DEVICE,
    VALUE_KEY
} ValueKind;

typedef struct ValueOf {
    const char *option;
    ValueKind   kind;
    const char *words;
} ValueOf;

static const ValueOf option_values[] = {
    { "device", VALUE_DEVICE, NULL },
    { "precision", VALUE_WORDS, "fp32 tf32 bf16 fp16" },
    { "backend", VALUE_WORDS, "onednn builtin" },
    { "allow", VALUE_WORDS, "none algorithm chunk split precision batchnorm-split" },
    { "completion", VALUE_WORDS, "bash zsh fish" },
    { "checkpoint", VALUE_WORDS, "best" },
    { "set", VALUE_KEY, NULL },
};

static ValueOf option_value(const Option *o)
{
    for (size_t i = 0; i < sizeof option_values / sizeof *option_values; i++)
        if (!strcmp(o->name, option_values[i].option))
            return option_values[i];
    bool path = o->argument && (!strcmp(o->argument, "FILE") || !strcmp(o->argument, "DIR") ||
                                !strcmp(o->argument, "RUN") || !strcmp(o->argument, "PATH"));
    return (ValueOf){ o->name, path ? VALUE_FILE : VALUE_ANY, NULL };
}

static ValueOf command_value(const Command *command)
{
    if (!strncmp(command->arguments, "MODEL", 5))
        return (ValueOf){ NULL, VALUE_RECIPE, NULL };
    if (!strcmp(command->name, "list"))
        return (ValueOf){ NULL, VALUE_WORDS, "recipes devices systems data" };
    if (!strcmp(command->name, "help"))
        return (ValueOf){ NULL, VALUE_WORDS, "recipe" };
    return (ValueOf){ NULL, VALUE_FILE, NULL };
}

/* "batch optimizer.lr ...": the keys of every system, once each. */
static void keys_add(Text *to, const char *section, const Field *fields)
{
    for (const Field *f = fields; f->key; f++) {
        const char *key = pool_print(to->pool, "%s%s%s", section, *section ? "." : "", f->key);
        if (f->kind == FIELD_GROUP) {
            keys_add(to, key, f->fields);
            continue;
        }
        const char *word = pool_print(to->pool, " %s=", key);
        char        after = 0;
        for (const char *at = to->at; at && (at = strstr(at, word)) && !after; at++)
            after = 1;
        if (!after)
            text_add(to, "%s", word);
    }
}

static const char *keys_text(Pool *pool)
{
    Text text = { .pool = pool };
    for (int i = 0; i < models_count; i++) {
        keys_add(&text, "", recipe_fields(pool, models_all[i]));
        keys_add(&text, "model", models_all[i]->fields);
    }
    return text.at + 1;
}

static const char *dashes_of(const Option *o) { return o->name[1] ? "--" : "-"; }

static const char *options_text(Pool *pool, const Command *command)
{
    Text text = { .pool = pool };
    for (const Option *o = command->options; o->name; o++)
        text_add(&text, "%s%s ", dashes_of(o), o->name);
    text_add(&text, "--help");
    return text.at;
}

/* ---- bash ---- */

static const char *bash_words(Pool *pool, ValueOf value)
{
    switch (value.kind) {
    case VALUE_ANY: return "COMPREPLY=()";
    case VALUE_FILE: return "_plimsoll_files";
    case VALUE_WORDS: return pool_print(pool, "_plimsoll_words \"%s\"", value.words);
    case VALUE_RECIPE: return "_plimsoll_words \"$(_plimsoll_list recipes)\"; _plimsoll_files more";
    case VALUE_DEVICE: return "_plimsoll_words \"$(_plimsoll_list devices)\"; _plimsoll_files more";
    case VALUE_KEY: return "_plimsoll_words \"$_plimsoll_keys\"; compopt -o nospace 2> /dev/null";
    }
    return "";
}

static const char bash_begin[] =
    "# bash completion of plimsoll; made by plimsoll help --completion bash\n"
    "_plimsoll_list() { plimsoll list \"$1\" 2> /dev/null | awk '/^  / { print $1 }'; }\n"
    "_plimsoll_words() { COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\")); }\n"
    "_plimsoll_files() { compopt -o filenames 2> /dev/null; local IFS=$'\\n'; "
    "COMPREPLY+=($(compgen -f -- \"$cur\")); }\n";

static void bash_command(Text *to, const Command *command)
{
    text_add(to, "    %s)\n        case $prev in\n", command->name);
    for (const Option *o = command->options; o->name; o++)
        if (o->kind != OPT_FLAG)
            text_add(to, "        %s%s) %s; return ;;\n", dashes_of(o), o->name,
                     bash_words(to->pool, option_value(o)));
    text_add(to,
             "        esac\n        if [[ $cur == -* ]]; then _plimsoll_words \"%s\"; else %s; fi\n"
             "        ;;\n",
             options_text(to->pool, command), bash_words(to->pool, command_value(command)));
}

static void completion_bash(Text *to)
{
    text_add(to, "%s_plimsoll_keys=\"%s\"\n", bash_begin, keys_text(to->pool));
    text_add(to, "_plimsoll() {\n    local cur=$2 prev=$3\n    COMPREPLY=()\n"
                 "    if [[ $COMP_CWORD -eq 1 ]]; then\n        _plimsoll_words \"");
    for (int i = 0; commands[i]; i++)
        text_add(to, "%s ", commands[i]->name);
    text_add(to, "--help --version\"\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n");
    for (int i = 0; commands[i]; i++)
        bash_command(to, commands[i]);
    text_add(to, "    esac\n}\ncomplete -F _plimsoll plimsoll\n");
}

/* ---- zsh ---- */

/* A help text inside '...[text]': quotes and brackets would end it. */
static const char *zsh_help(Pool *pool, const char *help)
{
    Text text = { .pool = pool };
    for (const char *c = help; *c; c++)
        text_add(&text,
                 *c == '\''                            ? "'\\''"
                 : *c == '[' || *c == ']' || *c == ':' ? "\\%c"
                                                       : "%c",
                 *c);
    return text.at;
}

static const char *zsh_action(Pool *pool, ValueOf value)
{
    switch (value.kind) {
    case VALUE_ANY: return " ";
    case VALUE_FILE: return "_files";
    case VALUE_WORDS: return pool_print(pool, "(%s)", value.words);
    case VALUE_RECIPE: return "_plimsoll_recipes";
    case VALUE_DEVICE: return "_plimsoll_devices";
    case VALUE_KEY: return "_plimsoll_key";
    }
    return "";
}

static void completion_zsh(Text *to)
{
    Pool *pool = to->pool;
    text_add(
        to,
        "#compdef plimsoll\n# made by plimsoll help --completion zsh\n"
        "_plimsoll_list() { plimsoll list $1 2> /dev/null | awk '/^  / { print $1 }' }\n"
        "_plimsoll_recipes() { compadd -- $(_plimsoll_list recipes); _files }\n"
        "_plimsoll_devices() { compadd -- $(_plimsoll_list devices); _files }\n"
        "_plimsoll_key() { compadd -S '' -- %s }\n"
        "_plimsoll() {\n    if (( CURRENT == 2 )); then\n        local -a all\n        all=(\n",
        keys_text(pool));
    for (int i = 0; commands[i]; i++)
        text_add(to, "            '%s:%s'\n", commands[i]->name,
                 zsh_help(pool, commands[i]->summary));
    text_add(to, "        )\n        _describe command all\n        return\n    fi\n"
                 "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
                 "    case $command in\n");
    for (int i = 0; commands[i]; i++) {
        text_add(to, "    %s)\n        _arguments -s \\\n", commands[i]->name);
        for (const Option *o = commands[i]->options; o->name; o++) {
            text_add(to, "            '%s%s%s[%s]", o->kind == OPT_LIST ? "*" : "", dashes_of(o),
                     o->name, zsh_help(pool, o->help));
            if (o->kind != OPT_FLAG)
                text_add(to, ":%s:%s", zsh_help(pool, o->argument),
                         zsh_action(pool, option_value(o)));
            text_add(to, "' \\\n");
        }
        text_add(
            to,
            "            '--help[show the options]' \\\n            '*:argument:%s'\n        ;;\n",
            zsh_action(pool, command_value(commands[i])));
    }
    text_add(to, "    esac\n}\n_plimsoll \"$@\"\n");
}

/* ---- fish ---- */

static const char *fish_help(Pool *pool, const char *help)
{
    Text text = { .pool = pool };
    for (const char *c = help; *c; c++)
        text_add(&text, *c == '\'' || *c == '\\' ? "\\%c" : "%c", *c);
    return text.at;
}

static const char *fish_words(Pool *pool, ValueOf value)
{
    switch (value.kind) {
    case VALUE_ANY: return " -x";
    case VALUE_FILE: return " -r -F";
    case VALUE_WORDS: return pool_print(pool, " -x -a '%s'", value.words);
    case VALUE_RECIPE: return " -F -a '(__plimsoll_list recipes)'";
    case VALUE_DEVICE: return " -r -F -a '(__plimsoll_list devices)'";
    case VALUE_KEY: return " -x -a \"$__plimsoll_keys\"";
    }
    return "";
}

static void completion_fish(Text *to)
{
    Pool *pool = to->pool;
    text_add(
        to,
        "# fish completion of plimsoll; made by plimsoll help --completion fish\n"
        "function __plimsoll_list; plimsoll list $argv[1] 2> /dev/null | string match -r '^  "
        "\\S+' | string trim; end\nset -g __plimsoll_keys '%s'\ncomplete -c plimsoll -f\n"
        "complete -c plimsoll -n __fish_use_subcommand -s V -l version -d 'print the version'\n",
        keys_text(pool));
    for (int i = 0; commands[i]; i++) {
        const Command *c = commands[i];
        text_add(to, "complete -c plimsoll -n __fish_use_subcommand -a %s -d '%s'\n", c->name,
                 fish_help(pool, c->summary));
        text_add(to, "complete -c plimsoll -n '__fish_seen_subcommand_from %s'%s\n", c->name,
                 fish_words(pool, command_value(c)));
        for (const Option *o = c->options; o->name; o++)
            text_add(to,
                     "complete -c plimsoll -n '__fish_seen_subcommand_from %s' -%s %s%s -d '%s'\n",
                     c->name, o->name[1] ? "l" : "s", o->name,
                     o->kind == OPT_FLAG ? "" : fish_words(pool, option_value(o)),
                     fish_help(pool, o->help));
    }
}

Err completion_write(Text *to, const char *shell)
{
    if (!strcmp(shell, "bash"))
        completion_bash(to);
    else if (!strcmp(shell, "zsh"))
        completion_zsh(to);
    else if (!strcmp(shell, "fish"))
        completion_fish(to);
    else
        return fail(E_USAGE, "--completion takes bash, zsh or fish, not '%s'", shell);
    return OK;
}
