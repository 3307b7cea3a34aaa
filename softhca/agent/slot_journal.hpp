// SPDX-License-Identifier: BSD-3-Clause
// Which of ibsim's ten client slots this agent holds, kept in a file so that the next agent can
// give them back when this one is killed: ibsim notices a dead client only when it has something
// for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace softhca {

inline constexpr char kSlotJournalFile[] = "agent.slots";
inline constexpr std::uint32_t kIbsimSlots = 10;

/// Thread rule: taken() and released() of different slots may run in different threads.
class SlotJournal {
 public:
  /// Opens or creates the journal of a directory. nullptr with errno.
  static std::unique_ptr<SlotJournal> open(const std::string& dir);
  SlotJournal(const SlotJournal&) = delete;
  SlotJournal& operator=(const SlotJournal&) = delete;
  ~SlotJournal();

  /// Makes the running ibsim drop the slots that a killed agent left, and starts a new journal.
  /// True when the journal was kept with the ibsim that runs now, that is, when it is the same
  /// fabric. Call before any slot is taken.
  bool recover(const std::string& ibsim_base);

  void taken(std::uint32_t slot, const std::string& node_id);
  void released(std::uint32_t slot);

 private:
  struct File;
  explicit SlotJournal(File* file) : file_(file) {}
  File* file_;
  std::string base_;                       // as given to recover()
  std::atomic<std::uint64_t> instance_{};  // of the ibsim whose slots are entered, 0 unknown
};

}  // namespace softhca
