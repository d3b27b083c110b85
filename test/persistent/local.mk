check_PROGRAMS += %D%/rectangles
%C%_rectangles_SOURCES = %D%/rectangles.c %D%/cuts.h
tests += %D%/rectangles
