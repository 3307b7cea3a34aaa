// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace softhca::hca {

/// Starts a thread of ours in somebody's program: signals of the program are for its own threads.
template <typename Run>
std::thread start_worker(Run&& run) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::forward<Run>(run));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace softhca::hca
