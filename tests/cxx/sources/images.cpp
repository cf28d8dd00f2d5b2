// A convolution as a product: the image as a matrix, by TIMG2COL, times filters.
#include <pto/pto-inst.hpp>
using namespace pto;

constexpr int C1 = 2, H = 5, W = 6, C0 = 16, FH = 3, FW = 2, M = 14, K = C1 * C0 * FH * FW, N = 16;
using Image = ConvTile<TileType::Mat, half, C1 * H * W * C0, Layout::NC1HWC0, ConvTileShape<1, C1, H, W, C0>>;

AICORE inline void describe(Image &image)
{
    uint8_t pads[] = {1, 2, 1, 0};
    image.SetFmapH(H);
    image.SetFmapW(W);
    image.SetPadListArray(pads);
    image.SetFilterH(FH);
    image.SetFilterW(FW);
    image.SetStrideH(2);
    image.SetStrideW(1);
    image.SetDilationH(1);
    image.SetDilationW(2);
    image.SetChannelSize(C1 * C0);
    image.SetPadValue(2);
    image.SetDstStride(1);
}

// PARTS divides the columns of the matrix, SET is how registers get their values.
template <int PARTS, typename SET>
AICORE inline void multiply(__gm__ float *out, __gm__ half *x, __gm__ half *w, SET set)
{
    constexpr int PART = K / PARTS;
    GlobalTensor<half, Shape<1, C1, H, W, C0>, Stride<C1 * H * W * C0, H * W * C0, W * C0, C0, 1>, Layout::NC1HWC0>
        from(x);
    GlobalTensor<half, Shape<1, 1, 1, K, N>, Stride<K * N, K * N, K * N, N, 1>> weights(w);
    GlobalTensor<float, Shape<1, 1, 1, M, N>, Stride<M * N, M * N, M * N, N, 1>> to(out);
    Image image;
    Tile<TileType::Mat, half, K, N, BLayout::ColMajor, K, N, SLayout::RowMajor> filters;
    TileLeft<half, 16, PART, M, PART> left;
    TileRight<half, PART, N> right;
    TileAcc<float, 16, N, M, N> sums;
    TASSIGN(image, 0);
    TASSIGN(filters, 0x10000);
    TASSIGN(left, 0);
    TASSIGN(right, 0);
    TASSIGN(sums, 0);
    TLOAD(image, from);
    TLOAD(filters, weights);
    set_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    wait_flag(PIPE_MTE2, PIPE_MTE1, EVENT_ID0);
    describe(image);
    for (int part = 0; part < PARTS; ++part) {
        set(left, image, part * PART);
        TEXTRACT(right, filters, part * PART, 0);
        set_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
        wait_flag(PIPE_MTE1, PIPE_M, EVENT_ID0);
        if (part == 0) TMATMUL(sums, left, right);
        else TMATMUL_ACC(sums, sums, left, right);
        pipe_barrier(PIPE_ALL);
    }
    TSTORE(to, sums);
}

#define PRODUCT(NAME, PARTS, ...)                                                                     \
    extern "C" __global__ AICORE void NAME(__gm__ float *out, __gm__ half *x, __gm__ half *w)         \
    {                                                                                                 \
        multiply<PARTS>(out, x, w, [](auto &left, Image &image, uint16_t k) {                         \
            using Left = std::remove_reference_t<decltype(left)>;                                     \
            __VA_ARGS__                                                                               \
        });                                                                                           \
    }

PRODUCT(by_setters, 1, {
    SETFMATRIX(image);
    SET_IMG2COL_PADDING(image);
    SET_IMG2COL_RPT(image);
    TIMG2COL(left, image, 0, k);
})
PRODUCT(in_parts, 3, { TIMG2COL<Left, Image, SetFmatrixMode::FMATRIX_B_AUTO>(left, image, 0, k); })
// Zeros are around the image, as no padding is set; the extents stay those of the setter.
PRODUCT(by_registers, 2, {
    if (k == 0) SETFMATRIX<Image, SetFmatrixMode::FMATRIX_B_MANUAL>(image);
    SET_IMG2COL_RPT<Image, SetFmatrixMode::FMATRIX_B_MANUAL>(image);
    image.SetFmapH(1);
    TIMG2COL<Left, Image, SetFmatrixMode::FMATRIX_B_MANUAL>(left, image, 0, k);
})
PRODUCT(without_extents, 1, { TIMG2COL(left, image, 0, k); })
PRODUCT(repeated, 1, {
    image.SetRepeatTime(2);
    TIMG2COL<Left, Image, SetFmatrixMode::FMATRIX_A_AUTO>(left, image, 0, k);
})
