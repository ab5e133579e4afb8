/* gemm_amx.c -- the built-in product of two bf16 operands: blocks, and packing as amx.h needs it.
 *
 * Which operand is A matters more than the shape: rows along k are copied into A's tiles but
 * transposed for B's panels; rows along i are paired for B but paired and transposed for A.
 * Transposing is the expensive part. */
#include "linalg/gemm_int.h"

enum {
    AMX_KC = 512,              /* a panel of B, 64 bytes per k, stays in L1 */
    AMX_B_WHOLE = 512 << 10,   /* elements of B packed over all of k: fits L2 */
    AMX_MC = 256,              /* rows of A packed at once */
    AMX_SUMS = 64 << 10,       /* sums in workspace, if B stays packed */
    AMX_SUMS_LONG = 256 << 10, /* the same, if every block of rows packs B again */
};

/* Measured cycles per element, roughly; only comparisons matter. */
static const float amx_pack_cost[2][2] = {
    /* [B?][along_i?] */
    { 0.08f, 0.25f },
    { 0.20f, 0.12f },
};

bool gemm_swap_amx(int64_t m, int64_t n, int64_t k, bool a_along_i, bool b_along_i)
{
    double plain = (double)m * (double)amx_pack_cost[0][a_along_i] +
                   (double)n * (double)amx_pack_cost[1][b_along_i];
    double transposed = (double)n * (double)amx_pack_cost[0][b_along_i] +
                        (double)m * (double)amx_pack_cost[1][a_along_i];
    return transposed * (double)k + 0.5 * (double)m * (double)n < plain * (double)k;
}

void gemm_plan_amx(GemmPlan *plan, int64_t batch, int64_t m, int64_t n, int64_t k, int threads,
                   bool direct, bool a_along_i, bool b_along_i)
{
    *plan = (GemmPlan){ .batch = batch,
                        .m = m,
                        .n = n,
                        .k = k,
                        .threads = threads,
                        .direct = direct,
                        .amx = true,
                        .product = amx_unit() == AMX_TILES ? 1.0f / 400 : 1.0f / 64,
                        .pack_a = amx_pack_cost[0][a_along_i],
                        .pack_b = amx_pack_cost[1][b_along_i],
                        .parts_b = 1,
                        .parts_m = 1,
                        .parts_n = 1,
                        .parts_k = 1 };
    gemm_plan_parts(plan);
    int64_t job_m = align_up(gemm_ceil_part(m, plan->parts_m, AMX_ROWS), AMX_ROWS);
    int64_t job_n = align_up(gemm_ceil_part(n, plan->parts_n, AMX_NR), AMX_NR);
    int64_t job_k = int_max(align_up(gemm_ceil_part(k, plan->parts_k, AMX_K), AMX_K), AMX_K);
    int64_t fit = AMX_B_WHOLE / job_k / AMX_NR * AMX_NR; /* columns of B over all of k */
    bool    aside = !direct && plan->parts_k == 1;
    plan->b_whole = fit >= int_min(job_n, 128);
    plan->nc = gemm_even(job_n, plan->b_whole ? int_min(fit, GEMM_NC) : GEMM_NC, AMX_NR);
    plan->kc = gemm_even(job_k, AMX_KC, AMX_K);
    int64_t sums = plan->b_whole ? AMX_SUMS : aside ? AMX_SUMS_LONG : INT64_MAX;
    plan->mb = gemm_even(job_m, int_max(sums / plan->nc, AMX_NR), AMX_ROWS);
    plan->mc = gemm_even(plan->mb, AMX_MC, AMX_NR);
    plan->a_floats = (size_t)(plan->mc * plan->kc / 2);
    plan->b_floats = (size_t)(plan->nc * (plan->b_whole ? job_k : plan->kc) / 2);
    plan->tile_floats = aside ? (size_t)(plan->mb * plan->nc) : 0;
    gemm_plan_workspace(plan, align_up(m, AMX_ROWS));
}

const uint16_t *gemm_block_matrix(const GemmSide *side, GemmRange i, int64_t k0, int64_t *nk,
                                  uint16_t *room, int64_t *ld)
{
    (void)nk, (void)room;
    *ld = side->ld;
    return (const uint16_t *)side->data +
           (side->along_i ? k0 * side->ld + i.lo : i.lo * side->ld + k0);
}

/* Packs up to AMX_K rows as AMX_K / 2 rows of pairs, one word per pair; absent rows are zeros. */
static void amx_stage_pairs(uint32_t *stage, int64_t wide, const uint16_t *src, int64_t ld,
                            int64_t nk, int64_t ni)
{
    for (int64_t j = 0; j < AMX_K / 2; j++, stage += wide, src += 2 * ld) {
        if (2 * j < nk)
            amx_pair(stage, src, 2 * j + 1 < nk ? src + ld : NULL, ni);
        memset(stage + (2 * j < nk ? ni : 0), 0, (size_t)(wide - (2 * j < nk ? ni : 0)) * 4);
    }
}

/* Copies a row of `have` elements into chunks of AMX_K, `step` apart; the last is padded with
 * zeros. Each row is read to its end before the next, in the order of memory. */
static void amx_copy_row(uint16_t *dst, int64_t step, const uint16_t *src, int64_t have)
{
    int64_t x = 0;
    for (; x + AMX_K <= have; x += AMX_K, dst += step)
        memcpy(dst, src + x, 2 * AMX_K);
    if (x < have) {
        memset(dst, 0, 2 * AMX_K);
        memcpy(dst, src + x, (size_t)(have - x) * 2);
    }
}

static void amx_zero_row(uint16_t *dst, int64_t step, int64_t have)
{
    for (int64_t x = 0; x < have; x += AMX_K, dst += step)
        memset(dst, 0, 2 * AMX_K);
}

/* Rows m of A, k in [k0, k0 + kk), into rows of tiles. */
static void amx_pack_a(const GemmSide *a, GemmRange m, int64_t k0, int64_t kk, uint16_t *dst)
{
    uint16_t room[GEMM_ROOM];
    uint32_t stage[AMX_K / 2 * GEMM_ROOM_I];
    int64_t  ld, rows = m.hi - m.lo;
    if (a->along_i) {
        for (int64_t k = 0; k < kk; k += AMX_K)
            for (int64_t i = 0; i < rows; i += GEMM_ROOM_I) {
                int64_t         nk = int_min(AMX_K, kk - k), ni = int_min(GEMM_ROOM_I, rows - i);
                int64_t         wide = align_up(ni, AMX_ROWS);
                GemmRange       some = { m.lo + i, m.lo + i + ni };
                const uint16_t *src = a->block(a, some, k0 + k, &nk, room, &ld);
                amx_stage_pairs(stage, wide, src, ld, nk, ni);
                for (int64_t x = 0; x < wide; x += AMX_ROWS)
                    amx_transpose((uint32_t *)(void *)(dst + amx_tile_at(i + x, k, kk)), 16,
                                  stage + x, wide);
            }
        return;
    }
    for (int64_t i = 0; i < rows; i += AMX_ROWS)
        for (int64_t k = 0, nk; k < kk; k += nk) {
            int64_t   ni = int_min(AMX_ROWS, rows - i);
            GemmRange some = { m.lo + i, m.lo + i + ni };
            nk = kk - k;
            const uint16_t *src = a->block(a, some, k0 + k, &nk, room, &ld);
            uint16_t       *to = dst + amx_tile_at(i, k, kk);
            for (int64_t r = 0; r < ni; r++)
                amx_copy_row(to + r * AMX_K, AMX_TILE, src + r * ld, nk);
            for (int64_t r = ni; r < AMX_ROWS; r++)
                amx_zero_row(to + r * AMX_K, AMX_TILE, nk);
        }
}

/* Columns n of B, k in [k0, k0 + kk), into panels. */
static void amx_pack_b(const GemmSide *b, GemmRange n, int64_t k0, int64_t kk, uint32_t *dst)
{
    uint16_t room[GEMM_ROOM];
    int64_t  ld, cols = n.hi - n.lo, panel = align_up(kk, AMX_K) / 2 * AMX_NR;
    if (b->along_i) {
        for (int64_t k = 0; k < kk; k += AMX_K)
            for (int64_t i = 0; i < cols; i += GEMM_ROOM_I) {
                int64_t         nk = int_min(AMX_K, kk - k), ni = int_min(GEMM_ROOM_I, cols - i);
                GemmRange       some = { n.lo + i, n.lo + i + ni };
                const uint16_t *src = b->block(b, some, k0 + k, &nk, room, &ld);
                uint32_t       *to = dst + i / AMX_NR * panel + k / 2 * AMX_NR;
                for (int64_t x = 0; x < ni; x += AMX_NR, to += panel, src += AMX_NR)
                    amx_stage_pairs(to, AMX_NR, src, ld, nk, int_min(AMX_NR, ni - x));
            }
        return;
    }
    for (int64_t i = 0; i < cols; i += AMX_NR, dst += panel)
        for (int64_t k = 0, nk; k < kk; k += nk) {
            int64_t   ni = int_min(AMX_NR, cols - i);
            GemmRange some = { n.lo + i, n.lo + i + ni };
            nk = kk - k;
            const uint16_t *src = b->block(b, some, k0 + k, &nk, room, &ld);
            for (int64_t x = 0; x < nk; x += AMX_K) {
                uint32_t  rows[AMX_NR * AMX_K / 2]; /* aligned, wherever src is */
                uint16_t *to = (uint16_t *)(void *)rows;
                int64_t   have = int_min(AMX_K, nk - x);
                for (int64_t r = 0; r < ni; r++)
                    amx_copy_row(to + r * AMX_K, 0, src + r * ld + x, have);
                for (int64_t r = ni; r < AMX_NR; r++)
                    amx_zero_row(to + r * AMX_K, 0, have);
                amx_transpose(dst + (k + x) / 2 * AMX_NR, AMX_NR, rows, AMX_K / 2);
            }
        }
}

void gemm_block_amx(const GemmPlan *p, const GemmSide *a, const GemmSide *b, const GemmSums *s,
                    GemmRange m, GemmRange n, GemmRange k, float *a_panels, float *b_panels,
                    bool b_packed)
{
    uint16_t *a_tiles = (uint16_t *)(void *)a_panels;
    uint32_t *b_block = (uint32_t *)(void *)b_panels;
    int64_t   k0 = k.lo;
    do { /* also for k = 0: the sums are zeros */
        int64_t kk = int_min(p->kc, k.hi - k0), depth = align_up(kk, AMX_K);
        if (!b_packed)
            amx_pack_b(b, n, k0, kk, b_block);
        for (int64_t i = m.lo; i < m.hi; i += p->mc) {
            GemmRange rows = { i, int_min(i + p->mc, m.hi) };
            amx_pack_a(a, rows, k0, kk, a_tiles);
            for (int64_t j = n.lo; j < n.hi; j += AMX_NR)
                amx_product(&(AmxProduct){ .a = a_tiles,
                                           .b = b_block + (j - n.lo) * depth / 2,
                                           .c = s->data + (i - s->row0) * s->ld + j - s->col0,
                                           .ldc = s->ld,
                                           .m = rows.hi - rows.lo,
                                           .n = int_min(AMX_NR, n.hi - j),
                                           .k = kk,
                                           .add = s->add || k0 > k.lo });
        }
        if (p->b_whole)
            b_block += align_up(n.hi - n.lo, AMX_NR) * depth / 2;
        k0 += p->kc;
    } while (k0 < k.hi);
}
