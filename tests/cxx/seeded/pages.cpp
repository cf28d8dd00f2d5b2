// Pages of a cache in the order of a table, which the scalar pipe reads; the last page is filled in part.
#include "../kernels/common.hpp"

constexpr int kPage = 8;
constexpr int kWidth = 32;
using Page = VecTile<half, kPage, kWidth>;
using Table = VecTile<int32_t, 1, 16>;

__global__ AICORE void pages(__gm__ half *out, __gm__ half *cache, __gm__ int32_t *table, int32_t count)
{
    Table list;
    Page page[2];
    TASSIGN(list, 0x0);
    TASSIGN(page[0], 0x40);
    TASSIGN(page[1], 0x240);
    const int block = static_cast<int>(get_block_idx());
    Matrix<int32_t, 1, 16> tableGlobal(table + block * 16);
    TLOAD(list, tableGlobal);
    set_flag(PIPE_MTE2, PIPE_S, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_S, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
    for (int i = 0; i < count; ++i) {
        const event_t id = static_cast<event_t>(i % 2);
        const int number = list.GetValue(i);
        Matrix<half, kPage, kWidth> from(cache + number * kPage * kWidth);
        Matrix<half, kPage, kWidth> to(out + (block * count + i) * kPage * kWidth);
        wait_flag(PIPE_MTE3, PIPE_MTE2, id);
        TLOAD(page[i % 2], from);
        set_flag(PIPE_MTE2, PIPE_MTE3, id);
        wait_flag(PIPE_MTE2, PIPE_MTE3, id);
        TSTORE(to, page[i % 2]);
        set_flag(PIPE_MTE3, PIPE_MTE2, id);
    }
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
    wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID1);
}

extern "C" void launch_pages(half *out, half *cache, int32_t *table, int32_t count, void *stream)
{
    pages<<<2, nullptr, stream>>>(out, cache, table, count);
}
