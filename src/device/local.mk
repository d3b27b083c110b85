librenga_la_SOURCES += %D%/device.c %D%/memory.c %D%/stream.c %D%/vector.c %D%/factors.c %D%/rowsum.c %D%/kernel.c %D%/host.c \
  %D%/threads.c %D%/signals.c %D%/outside.c %D%/staged.c %D%/stagedvector.c %D%/span.c %D%/widen.c %D%/round.c %D%/ref.c %D%/far/far.c %D%/far/kernel.c %D%/far/queue.c \
  %D%/far/vector.c %D%/far/work.c %D%/cpu/device.c %D%/cpu/onednn.c %D%/cpu/dnnshape.c %D%/cpu/images.c %D%/cpu/matmul.c %D%/cpu/turn.c
noinst_HEADERS += include/renga/private/fabric.h include/renga/private/span.h
noinst_HEADERS += include/renga/private/device.h include/renga/private/kernel.h include/renga/private/factors.h include/renga/private/fp8.h include/renga/private/rowsums.h include/renga/private/ref.h include/renga/private/dropout.h include/renga/private/logsum.h \
  %D%/far/far.h %D%/cpu/cpu.h %D%/cpu/amx.h %D%/cpu/broadcast.h %D%/cpu/copy.h \
  %D%/cpu/dnn.h %D%/cpu/low.h %D%/cpu/lowproduct.h %D%/cpu/matmul.h %D%/cpu/math.h %D%/cpu/packed.h %D%/cpu/panel.h %D%/cpu/product.h %D%/cpu/rows.h %D%/cpu/turn.h %D%/cpu/words.h %D%/cpu/onednn.h %D%/cpu/random.h

# The same sources for each instruction set; names end with RENGA_ISA. The flags that matter are spelt out,
# since a user's -O2 comes after them.
cpu_sources = %D%/cpu/set.c %D%/cpu/low.c %D%/cpu/vector.c %D%/cpu/product.c %D%/cpu/lowproduct.c %D%/cpu/linear.c %D%/cpu/unary.c \
  %D%/cpu/binary.c %D%/cpu/copy.c %D%/cpu/move.c %D%/cpu/index.c %D%/cpu/rowsum.c %D%/cpu/reduce.c \
  %D%/cpu/softmax.c %D%/cpu/loss.c %D%/cpu/join.c %D%/cpu/batchjoin.c %D%/cpu/layernorm.c %D%/cpu/attention.c %D%/cpu/cached.c %D%/cpu/dropout.c \
  %D%/cpu/convolution.c %D%/cpu/packed.c %D%/cpu/panel.c %D%/cpu/batchnorm.c %D%/cpu/pool.c
cpu_flags = $(AM_CFLAGS) -ftree-vectorize $(VECTORIZE_CFLAGS) -ffp-contract=fast -fno-math-errno \
  -fno-trapping-math
noinst_LTLIBRARIES += libcpubase.la
libcpubase_la_SOURCES = $(cpu_sources)
libcpubase_la_CFLAGS = $(cpu_flags) -DRENGA_ISA=base
librenga_la_LIBADD += libcpubase.la
if ISA_AVX2
noinst_LTLIBRARIES += libcpuavx2.la
libcpuavx2_la_SOURCES = $(cpu_sources)
libcpuavx2_la_CFLAGS = $(cpu_flags) -march=x86-64-v3 -DRENGA_ISA=avx2
librenga_la_LIBADD += libcpuavx2.la
endif
if ISA_AVX512
noinst_LTLIBRARIES += libcpuavx512.la
libcpuavx512_la_SOURCES = $(cpu_sources)
libcpuavx512_la_CFLAGS = $(cpu_flags) -march=x86-64-v4 -mprefer-vector-width=512 -DRENGA_ISA=avx512
librenga_la_LIBADD += libcpuavx512.la
# One file has these instructions: the others run on processors without them.
if ISA_AMX
noinst_LTLIBRARIES += libcpuamx.la
libcpuamx_la_SOURCES = %D%/cpu/amx.c
libcpuamx_la_CFLAGS = $(libcpuavx512_la_CFLAGS) -mavx512bf16 -mamx-tile -mamx-bf16
libcpuavx512_la_CFLAGS += -DRENGA_AMX
librenga_la_LIBADD += libcpuamx.la
endif
endif

include src/device/ref/local.mk
include src/device/cuda/local.mk
librenga_la_SOURCES += %D%/recording.c
noinst_HEADERS += include/renga/private/recording.h
