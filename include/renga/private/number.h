/* Numbers and letters that are the same in every locale. A host program may have called
   setlocale(), after which strtod() reads 0.5 as 0, printf() writes 0,5, and other bytes are
   letters: only this file calls them (test/numbers.sh). The locale is changed for the calling
   thread and the time of one call; glibc and musl have the one called C built in. */
#pragma once
#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#if defined __APPLE__ || defined __FreeBSD__
#include <xlocale.h>
#endif

typedef struct {
  locale_t own, before;
} RengaLocale;

static inline RengaLocale RengaLocaleBegin(void)
{
  const locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return (RengaLocale){.own = own, .before = uselocale(own)};
}

static inline void RengaLocaleEnd(RengaLocale locale)
{
  uselocale(locale.before);
  if (locale.own) freelocale(locale.own);
}

/* As strtod(). */
static inline double RengaReadReal(const char *text, char **end)
{
  const RengaLocale locale = RengaLocaleBegin();
  const double number = strtod(text, end);
  RengaLocaleEnd(locale);
  return number;
}

/* As strtof(): rounded once. */
static inline float RengaReadSingle(const char *text, char **end)
{
  const RengaLocale locale = RengaLocaleBegin();
  const float number = strtof(text, end);
  RengaLocaleEnd(locale);
  return number;
}

/* As vsnprintf(). */
__attribute__((format(printf, 3, 0))) static inline int
RengaTextFormatList(char *text, size_t size, const char *format, va_list arguments)
{
  const RengaLocale locale = RengaLocaleBegin();
  const int length = vsnprintf(text, size, format, arguments);
  RengaLocaleEnd(locale);
  return length;
}

/* As snprintf(). */
__attribute__((format(printf, 3, 4))) static inline int RengaTextFormat(char *text, size_t size,
                                                                        const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  const int length = RengaTextFormatList(text, size, format, arguments);
  va_end(arguments);
  return length;
}

/* As vfprintf(). */
__attribute__((format(printf, 2, 0))) static inline int
RengaFilePrintList(FILE *file, const char *format, va_list arguments)
{
  const RengaLocale locale = RengaLocaleBegin();
  const int length = vfprintf(file, format, arguments);
  RengaLocaleEnd(locale);
  return length;
}

/* As fprintf(). */
__attribute__((format(printf, 2, 3))) static inline int RengaFilePrint(FILE *file,
                                                                       const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  const int length = RengaFilePrintList(file, format, arguments);
  va_end(arguments);
  return length;
}

/* ---- letters of ASCII; bytes of other characters are none of these ---- */
static inline bool RengaIsDigit(char letter)
{
  return letter >= '0' && letter <= '9';
}

static inline bool RengaIsLetter(char letter)
{
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

static inline bool RengaIsLetterOrDigit(char letter)
{
  return RengaIsLetter(letter) || RengaIsDigit(letter);
}

static inline bool RengaIsSpace(char letter)
{
  return letter == ' ' || (letter >= '\t' && letter <= '\r');
}

static inline char RengaToLower(char letter)
{
  return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* Are the first `most` letters the same, be they capitals or not? Until the end of both texts. */
static inline bool RengaIsSamePart(const char *a, const char *b, size_t most)
{
  size_t i = 0;
  while (i < most && a[i] && RengaToLower(a[i]) == RengaToLower(b[i])) i++;
  return i == most || (a[i] == 0 && b[i] == 0);
}

static inline bool RengaIsSameWord(const char *a, const char *b)
{
  return RengaIsSamePart(a, b, (size_t)-1);
}
