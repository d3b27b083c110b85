find_package(Renga 0.1 REQUIRED)
add_executable(train train.c)
target_link_libraries(train Renga::renga)
