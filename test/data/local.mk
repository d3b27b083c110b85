data_tests = %D%/arrays %D%/idx %D%/shuffle %D%/text
check_PROGRAMS += $(data_tests)
TESTS += $(data_tests)
%C%_arrays_LDADD = $(LDADD) $(HDF5_LIBS)
%C%_idx_LDADD = $(LDADD) $(HDF5_LIBS) $(ZLIB_LIBS)
%C%_shuffle_LDADD = $(LDADD) $(HDF5_LIBS)
%C%_text_LDADD = $(LDADD) $(HDF5_LIBS)
noinst_HEADERS += %D%/datatest.h
