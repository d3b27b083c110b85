/* A log-sum-exp stands in one float: the largest score plus the logarithm of a sum. Where the score
   is large, the logarithm is rounded away: -1e9 + log(5) is -1e9, and probabilities from it add up
   to 5. So rows of RENGA_LOGSUM_LARGE or more, either sign, have their maximum and sum found again,
   apart from each other, wherever probabilities are made from the log-sum-exp. Below it the float
   is wrong by 2^-17 at most. */
#pragma once

#define RENGA_LOGSUM_LARGE 256

/* Is it so large (or infinite, or no number) that maximum and sum are found again? */
#define RENGA_LOGSUM_IS_LARGE(whole)                                                               \
  (!((whole) > -RENGA_LOGSUM_LARGE && (whole) < RENGA_LOGSUM_LARGE))
