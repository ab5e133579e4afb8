/* Tests of base/config: structs from YAML and from --set, written back, and the sentence of every
 * kind of mistake. */
#include "test.h"

#include "base/config.h"
#include "base/yaml.h"

typedef struct Leash {
    double length;
    int    colour;
} Leash;

typedef struct Dog {
    int64_t     legs;
    double      weight;
    bool        barks;
    const char *name;
    Ints        litters;
    Texts       tricks;
    Leash       leash;
} Dog;

static const char *const colours[] = { "red", "green", "blue", NULL };
static const Field       leash_fields[] = {
          { "length", FIELD_NUMBER, offsetof(Leash, length), .low = 0, .high = 10 },
          { "colour", FIELD_CHOICE, offsetof(Leash, colour), .choices = colours },
          { 0 }
};
static const Field dog_fields[] = {
    { "legs", FIELD_INT, offsetof(Dog, legs), .low = 0, .high = 8 },
    { "weight", FIELD_NUMBER, offsetof(Dog, weight) },
    { "barks", FIELD_BOOL, offsetof(Dog, barks) },
    { "name", FIELD_TEXT, offsetof(Dog, name) },
    { "litters", FIELD_INTS, offsetof(Dog, litters), .low = 1, .high = 20 },
    { "tricks", FIELD_TEXTS, offsetof(Dog, tricks) },
    { "leash", FIELD_GROUP, offsetof(Dog, leash), .fields = leash_fields },
    { 0 }
};

static const Dog default_dog = { .legs = 4, .weight = 12.5, .name = "Rex" };

static Err dog_read(Pool *pool, const char *yaml, Dog *dog)
{
    const Json *map;
    *dog = default_dog;
    TRY(yaml_parse(pool, "dog.yaml", yaml, strlen(yaml), &map));
    return config_read(pool, map, dog_fields, dog);
}

static void read_back(void)
{
    Pool *pool = pool_new(NULL, "config");
    Dog   dog, again;
    CHECK_OK(dog_read(pool,
                      "legs: 3\nbarks: true\nname: null\nlitters: [5, 7]\n"
                      "tricks: [sit, 'roll: over']\nleash: {length: 2.5, colour: blue}\n",
                      &dog));
    CHECK_INT(dog.legs, 3);
    CHECK_NEAR(dog.weight, 12.5, 0); /* not given: the default */
    CHECK(dog.barks && !dog.name);
    CHECK_INT(dog.litters.n, 2);
    CHECK_INT(dog.litters.at[1], 7);
    CHECK_TEXT(dog.tricks.at[1], "roll: over");
    CHECK_INT(dog.leash.colour, 2);

    Text yaml = { .pool = pool };
    config_write_yaml(&yaml, dog_fields, &dog, 0);
    CHECK_OK(dog_read(pool, yaml.at, &again));
    CHECK(again.legs == dog.legs && again.barks == dog.barks && !again.name);
    CHECK_INT(again.litters.n, 2);
    CHECK_TEXT(again.tricks.at[1], "roll: over");
    CHECK_NEAR(again.leash.length, 2.5, 0);
    CHECK_INT(again.leash.colour, 2);
    pool_free(pool);
}

static void set(void)
{
    Pool *pool = pool_new(NULL, "config");
    Dog   dog = default_dog;
    CHECK_OK(config_set(pool, "leash.colour=green", dog_fields, &dog));
    CHECK_OK(config_set(pool, "litters=[1, 2, 3]", dog_fields, &dog));
    CHECK_OK(config_set(pool, "name=a=b", dog_fields, &dog));
    CHECK_INT(dog.leash.colour, 1);
    CHECK_INT(dog.litters.n, 3);
    CHECK_TEXT(dog.name, "a=b");
    CHECK_INT(config_set(pool, "legs", dog_fields, &dog), E_USAGE);
    CHECK_TEXT(err_text(), "--set takes key=value, not 'legs'");
    CHECK_INT(config_set(pool, "legs=9", dog_fields, &dog), E_USAGE);
    CHECK_TEXT(err_text(), "--set legs=9: legs must be from 0 to 8, not 9");
    CHECK_INT(config_set(pool, "leash.color=red", dog_fields, &dog), E_USAGE);
    CHECK(strstr(err_text(), "'color'") && strstr(err_text(), "colour"));
    pool_free(pool);
}

static void mistakes(void)
{
    static const struct {
        const char *yaml, *says;
    } rows[] = {
        { "legs: 9\n", "dog.yaml:1: legs must be from 0 to 8, not 9" },
        { "legs: four\n", "'legs' must be" },
        { "weight: heavy\n", "'weight' must be" },
        { "barks: maybe\n", "'barks' must be" },
        { "lgs: 4\n", "unknown key 'lgs', did you mean 'legs'?" },
        { "colour: red\n", "unknown key 'colour', did you mean 'leash.colour'?" },
        { "leash: {colour: gren}\n", "colour cannot be 'gren'; did you mean 'green'?" },
        { "leash: {colour: 7}\n", "colour must be one of: red, green, blue" },
        { "leash: 7\n", "'leash' must be" },
        { "litters: [1, 21]\n", "litters must be from 1 to 20, not 21" },
        { "litters: [1,1,1,1,1,1,1,1,1,1,1,1,1]\n", "litters has 13 entries; at most 12" },
    };
    Pool *pool = pool_new(NULL, "config");
    Dog   dog;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Err err = dog_read(pool, rows[i].yaml, &dog);
        CHECK(err == E_USAGE || err == E_FORMAT);
        if (!strstr(err_text(), rows[i].says))
            CHECK_TEXT(err_text(), rows[i].says);
    }
    pool_free(pool);
}

int main(void)
{
    RUN(read_back);
    RUN(set);
    RUN(mistakes);
    return test_end();
}
