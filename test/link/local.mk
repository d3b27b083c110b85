# The library as others link it, and add to it.
check_PROGRAMS += %D%/handles %D%/register %D%/schedule %D%/operator %D%/device %D%/profile \
  %D%/transport
%C%_handles_SOURCES = %D%/handles.c
%C%_handles_LDADD = $(OUTSIDE_LDADD)
%C%_register_SOURCES = %D%/register.c %D%/wave.h
%C%_register_LDADD = $(OUTSIDE_LDADD)
%C%_schedule_SOURCES = %D%/schedule.c %D%/wave.h test/delayed.h
%C%_schedule_LDADD = $(OUTSIDE_LDADD)
%C%_device_SOURCES = %D%/device.c %D%/wave.h
%C%_device_LDADD = $(OUTSIDE_LDADD)
%C%_profile_SOURCES = %D%/profile.c
%C%_profile_LDADD = $(OUTSIDE_LDADD) -lm
%C%_transport_SOURCES = %D%/transport.c %D%/wave.h test/carried.h
%C%_transport_LDADD = $(OUTSIDE_LDADD)
%C%_operator_SOURCES = %D%/operator.c test/onnx/write.c test/onnx/write.h
%C%_operator_LDADD = $(OUTSIDE_LDADD)
tests += %D%/exports.sh %D%/cxx.sh %D%/handles %D%/register %D%/schedule %D%/operator %D%/device %D%/profile \
  %D%/transport
EXTRA_DIST += %D%/exports.sh %D%/cxx.sh %D%/train.cpp %D%/handles.cpp %D%/cmake/CMakeLists.txt %D%/cmake/book.cmake
