# Tutorials are built and run as tests.
tutorials = %D%/ex1 %D%/ex2 %D%/ex3 %D%/ex4 %D%/ex5 %D%/ex6
check_PROGRAMS += $(tutorials)
TESTS += $(tutorials)
%C%_ex1_SOURCES = %D%/ex1.c
%C%_ex1_LDADD = $(OUTSIDE_LDADD)
%C%_ex2_SOURCES = %D%/ex2.c
%C%_ex2_LDADD = $(OUTSIDE_LDADD)
%C%_ex3_SOURCES = %D%/ex3.c
%C%_ex3_LDADD = $(OUTSIDE_LDADD)
%C%_ex4_SOURCES = %D%/ex4.c
%C%_ex4_LDADD = $(OUTSIDE_LDADD)
%C%_ex5_SOURCES = %D%/ex5.c
%C%_ex5_LDADD = $(OUTSIDE_LDADD)
%C%_ex6_SOURCES = %D%/ex6.c
%C%_ex6_LDADD = $(OUTSIDE_LDADD) -lm
