/* TEST ranks: 1 */
/* A file that another one names stays in that one's folder, whatever links and dots do. */
#include "renga/private/path.h"
#include "../check.h"
#include <sys/stat.h>

static RengaErrorCode MakeFiles(void)
{
  static const char *const files[] = {"path-test/net/model", "path-test/net/below/data",
                                      "path-test/secret", "path-test/netting"};
  mkdir("path-test", 0777);
  mkdir("path-test/net", 0777);
  mkdir("path-test/net/below", 0777);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    FILE *file = fopen(files[i], "w");
    Expect(file != NULL && fclose(file) == 0);
  }
  Expect(symlink("../secret", "path-test/net/link") == 0);
  Expect(symlink("net", "path-test/other") == 0);
  Expect(symlink("net/model", "path-test/model") == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode RemoveFiles(void)
{
  static const char *const names[] = {
      "path-test/model",     "path-test/other",  "path-test/net/link", "path-test/net/below/data",
      "path-test/net/model", "path-test/secret", "path-test/netting"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) Expect(unlink(names[i]) == 0);
  Expect(rmdir("path-test/net/below") == 0 && rmdir("path-test/net") == 0);
  Expect(rmdir("path-test") == 0);
  return RENGA_SUCCESS;
}

static RengaErrorCode TestPath(void)
{
  static const char *const inside[][2] = {
      {"path-test/net/model", "path-test/net/below/data"},
      {"path-test/net/model", "path-test/net/below/../model"},
      {"path-test/other/model", "path-test/other/below/data"}, /* the folder is a link */
      {"path-test/model", "path-test/net/below/data"},         /* the file is a link */
      {"path-test/secret", "path-test/net/model"}};
  static const char *const outside[][2] = {{"path-test/net/model", "path-test/secret"},
                                           {"path-test/net/model", "path-test/net/../secret"},
                                           {"path-test/net/model", "path-test/net/link"},
                                           {"path-test/net/model", "path-test/netting"},
                                           {"path-test/net/model", "/dev/null"}};
  RengaCall(MakeFiles());
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
    RengaCall(RengaPathCheckExternal(inside[i][0], inside[i][1], "its part"));
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    ExpectError(RengaPathCheckExternal(outside[i][0], outside[i][1], "its part"),
                RENGA_ERR_FILE_FORMAT, outside[i][0], outside[i][1], "its part", "-allow_external");
  ExpectError(RengaPathCheckExternal("path-test/net/model", "path-test/net/none", "its part"),
              RENGA_ERR_FILE_OPEN, "path-test/net/none: No such file");
  RengaCall(RengaOptionsSetValue("allow_external", "true"));
  for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
    RengaCall(RengaPathCheckExternal(outside[i][0], outside[i][1], "its part"));
  RengaCall(RemoveFiles());
  return RENGA_SUCCESS;
}

TEST_MAIN(TestPath)
