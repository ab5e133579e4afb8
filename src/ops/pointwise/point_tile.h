/* point_tile.h -- a pointwise program on the CPU as a plan of tiles, and the rows of a tile.
 *
 * A tile is a box of points whose registers stay in the first cache. tile_plan cuts the space into
 * boxes and turns the program into actions on rows of fp32 or int32; box_load and box_store move
 * such rows, box_reduce adds them to sums.
 */
#ifndef OPS_POINTWISE_POINT_TILE_H
#define OPS_POINTWISE_POINT_TILE_H

#include "ops/pointwise/point_steps.h"
#include "ops/pointwise/pointwise_int.h"

enum {
    MAX_PLACES = POINT_STEPS_MAX + POINT_INPUTS_MAX + POINT_RESULTS,
    MAX_ACTIONS = POINT_STEPS_MAX + POINT_INPUTS_MAX + POINT_RESULTS
};

/* Where a step's row is: places are numbered registers first, then rows of operands and results
 * that are used in memory, then single numbers. */
typedef enum TilePlaceKind {
    PLACE_REGISTER,
    PLACE_OPERAND,
    PLACE_RESULT,
    PLACE_NUMBER
} TilePlaceKind;

typedef struct TilePlace {
    uint8_t kind; /* TilePlaceKind */
    int16_t of;   /* register, operand, result or step */
} TilePlace;

typedef enum ActionKind { ACTION_LOAD, ACTION_STEP, ACTION_STORE, ACTION_REDUCE } ActionKind;

typedef struct Action {
    uint8_t  kind;       /* ActionKind */
    int16_t  of;         /* operand, step or result */
    int16_t  d, a, b, c; /* places */
    PointFn *fn;
} Action;

typedef struct TilePlan {
    int     rank, n_in, n_results, threads;
    int64_t dim[POINT_RANK]; /* axes that belong together are one */
    int64_t box[POINT_RANK]; /* of a tile */
    int64_t grid[POINT_RANK];
    int64_t points, tile; /* of the space; of a tile, at most */
    int64_t stride[POINT_INPUTS_MAX][POINT_RANK];
    int64_t out_stride[POINT_RESULTS][POINT_RANK]; /* 0: reduced */
    Type    in_type[POINT_INPUTS_MAX];
    bool    flat; /* boxes are contiguous ranges of points */

    bool    reduces;
    int     split; /* the axis that is divided among threads, if it reduces */
    int64_t count[POINT_RESULTS], copies[POINT_RESULTS], at[POINT_RESULTS]; /* of sums */
    int64_t sum_bytes;

    int        n_places, n_registers, n_actions, n_numbers;
    TilePlace *place;
    Action    *action;
    /* steps that are the same for all points, in order, and the place of each */
    int16_t   *number, *number_place;
} TilePlan;

typedef struct TileRoom { /* room for any plan */
    TilePlace place[MAX_PLACES];
    Action    action[MAX_ACTIONS];
    int16_t   number[POINT_STEPS_MAX], number_place[POINT_STEPS_MAX];
} TileRoom;

/* t points into room. taken: the operand whose bytes result 0 takes over, or -1. The same for every
 * run of a node: of the addresses only `taken` matters, and not for the boxes. */
void tile_plan(TilePlan *t, TileRoom *room, const Node *n, int threads, int taken);

typedef struct Box {
    int64_t from[POINT_RANK], n[POINT_RANK];
    int64_t points, first; /* of the space: the box's first point */
} Box;

/* Rows: n elements of 4 bytes, converted from and to the type in memory. */
uint32_t element_bits(Type type, const char *src);
void     run_fill(void *d, uint32_t bits, int64_t n);
void     run_store(Type type, char *d, const void *row, int64_t n);
/* The elements of operand i in a box of n, from axis a on, as one row. */
void     box_load(const TilePlan *t, const int64_t *n, int i, int a, uint32_t *d, const char *src);
void     box_store(const TilePlan *t, const int64_t *n, const int64_t *stride, Type type, int a,
                   char *d, const uint32_t *row);

typedef union Sum {
    double  f;
    int64_t i;
} Sum;

Sum  sum_start(PointReduce how, bool integer);
void sum_join(Sum *to, Sum x, PointReduce how, bool integer);
/* Adds a box of n, from axis a on, to sums; stride: of the sums, 0 along reduced axes. */
void box_reduce(const TilePlan *t, const int64_t *n, const int64_t *stride, PointReduce how,
                bool integer, int a, Sum *to, const uint32_t *row);

#endif
