librenga_la_SOURCES += %D%/await.c %D%/choose.c %D%/summessages.c %D%/ncclsums.c %D%/mpi.c \
  %D%/nccl.c %D%/outside.c %D%/parcel.c %D%/probe.c %D%/staged.c %D%/transport.c %D%/ncclcommunicators.c
noinst_HEADERS += include/renga/private/transport.h %D%/nccl.h %D%/transportimpl.h
