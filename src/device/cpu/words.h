/* 16 vectors of AVX-512 as 16 x 16 words of 32 bits. */
#pragma once
#include <immintrin.h>

/* What was row[i]'s word j is row[j]'s word i. */
static inline void RengaTurnWords(__m512i row[16])
{
  __m512i next[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    next[2 * i] = _mm512_unpacklo_epi32(row[2 * i], row[2 * i + 1]);
    next[2 * i + 1] = _mm512_unpackhi_epi32(row[2 * i], row[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    row[i] = _mm512_unpacklo_epi64(next[i], next[i + 2]);
    row[i + 1] = _mm512_unpackhi_epi64(next[i], next[i + 2]);
    row[i + 2] = _mm512_unpacklo_epi64(next[i + 1], next[i + 3]);
    row[i + 3] = _mm512_unpackhi_epi64(next[i + 1], next[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    next[i] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0x88);
    next[i + 4] = _mm512_shuffle_i32x4(row[i], row[i + 4], 0xdd);
    next[i + 8] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0x88);
    next[i + 12] = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    row[i] = _mm512_shuffle_i32x4(next[i], next[i + 8], 0x88);
    row[i + 4] = _mm512_shuffle_i32x4(next[i + 4], next[i + 12], 0x88);
    row[i + 8] = _mm512_shuffle_i32x4(next[i], next[i + 8], 0xdd);
    row[i + 12] = _mm512_shuffle_i32x4(next[i + 4], next[i + 12], 0xdd);
  }
}
