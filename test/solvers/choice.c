/* Which items of a stage run as their slower option that needs less memory: a knapsack. Items that
   save the same are one class, from which the cheapest are taken first; so only the number taken
   from each class is searched, depth first with the bound of the best ratio. */
#include "shard.h"
#include <stdlib.h>
#include <string.h>

static const RengaCutsOption *ChoicesOf(const RengaCutsShardProblem *problem, int item, int degree)
{
  return problem->option + ((int64_t)item * problem->degrees + degree) * problem->options;
}

RengaErrorCode ShardChoiceAllocate(int items, ShardChoice *choice)
{
  choice->room = items;
  RengaCall(RengaMalloc(items + 1, &choice->list));
  for (int c = 0; c < items; c++) {
    RengaCall(RengaMalloc(items + 1, &choice->list[c].price));
    RengaCall(RengaMalloc(items + 1, &choice->list[c].item));
  }
  return RENGA_SUCCESS;
}

void ShardChoiceFree(int items, ShardChoice *choice)
{
  for (int c = 0; choice->list && c < items; c++) {
    RengaFree(&choice->list[c].price);
    RengaFree(&choice->list[c].item);
  }
  RengaFree(&choice->list);
}

static ShardClass *FindShapeClass(ShardChoice *choice, double each, double once)
{
  for (int c = 0; c < choice->count; c++)
    if (choice->list[c].each == each && choice->list[c].once == once) return &choice->list[c];
  ShardClass *new = &choice->list[choice->count++];
  new->each = each;
  new->once = once;
  new->count = 0;
  return new;
}

/* Into its class by price: price[i + 1] is that of item i until the sums are made. */
static void InsertChoice(ShardClass *into, int item, double price)
{
  int place = into->count++;
  for (; place > 0 && into->price[place] > price; place--) {
    into->price[place + 1] = into->price[place];
    into->item[place] = into->item[place - 1];
  }
  into->price[place + 1] = price;
  into->item[place] = item;
}

RengaErrorCode ShardChoiceFill(const RengaCutsShardProblem *problem, int degree, int count,
                               const int item[], ShardChoice *choice)
{
  choice->count = 0;
  choice->each = choice->once = 0;
  for (int i = 0; i < count; i++) {
    const RengaCutsOption *option = ChoicesOf(problem, item[i], degree), *fast = option;
    const RengaCutsOption *slow = option + problem->options - 1;
    if (slow->seconds < fast->seconds) {
      slow = option;
      fast = option + 1;
    }
    choice->each += fast->memory_each;
    choice->once += fast->memory_once;
    double each = fast->memory_each - slow->memory_each;
    double once = fast->memory_once - slow->memory_once;
    if (each <= 0 && once <= 0) continue;
    InsertChoice(FindShapeClass(choice, each, once), item[i], slow->seconds - fast->seconds);
  }
  for (int c = 0; c < choice->count; c++) {
    ShardClass *class = &choice->list[c];
    class->price[0] = 0;
    for (int i = 0; i < class->count; i++) class->price[i + 1] += class->price[i];
  }
  return RENGA_SUCCESS;
}

typedef struct {
  const ShardChoice *choice;
  int y;
  double best;
  int *taken, *now; /* NULL, or [classes] */
} Knapsack;

static double Saving(const Knapsack *knapsack, int class)
{
  const ShardClass *mine = &knapsack->choice->list[class];
  return mine->each * knapsack->y + mine->once;
}

/* The least that the rest could cost: all of it at the price of its cheapest item per byte. */
static double LeastPrice(const Knapsack *knapsack, int class, double over)
{
  double ratio = HUGE_VAL, able = 0;
  for (int c = class; c < knapsack->choice->count; c++) {
    const ShardClass *mine = &knapsack->choice->list[c];
    double saving = Saving(knapsack, c);
    if (saving <= 0) continue;
    able += saving * mine->count;
    if (mine->price[1] / saving < ratio) ratio = mine->price[1] / saving;
  }
  return able >= over ? over * ratio : HUGE_VAL;
}

static void TakeChoice(Knapsack *knapsack, int class, double over, double price)
{
  const ShardChoice *choice = knapsack->choice;
  if (over <= 0) {
    if (price >= knapsack->best) return;
    knapsack->best = price;
    for (int c = 0; knapsack->taken && c < choice->count; c++)
      knapsack->taken[c] = c < class ? knapsack->now[c] : 0;
    return;
  }
  if (class == choice->count || price + LeastPrice(knapsack, class, over) >= knapsack->best) return;
  double saving = Saving(knapsack, class);
  int most = saving > 0 ? choice->list[class].count : 0;
  int enough = saving > 0 && over / saving < most ? (int)ceil(over / saving) : most;
  for (int n = enough; n >= 0; n--) {
    if (knapsack->now) knapsack->now[class] = n;
    TakeChoice(knapsack, class + 1, over - n * saving, price + choice->list[class].price[n]);
  }
}

double ShardChoiceSolve(const ShardChoice *choice, double capacity, int y, int taken[])
{
  double over = choice->each * y + choice->once - capacity;
  Knapsack knapsack = {.choice = choice,
                       .y = y,
                       .best = HUGE_VAL,
                       .taken = taken,
                       .now = taken ? taken + choice->room : NULL};
  if (taken) memset(taken, 0, sizeof *taken * (size_t)choice->count);
  if (over <= 0) return 0;
  TakeChoice(&knapsack, 0, over, 0);
  return knapsack.best;
}
