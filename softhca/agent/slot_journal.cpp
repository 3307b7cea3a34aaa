// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/agent/slot_journal.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "softhca/agent/ibsim_slot.hpp"
#include "softhca/agent/log.hpp"
#include "softhca/mad/smp.hpp"

namespace softhca {

struct SlotJournal::File {
  struct Entry {
    std::uint32_t used;
    std::array<char, 36> node_id;
  };
  std::uint64_t instance;
  std::array<Entry, kIbsimSlots> entries;
};

namespace {

/// Has ibsim write to a slot, by sending an answer that belongs to it: a directed-route answer with
/// no hops to the node itself, which a living subnet manager would put aside as an answer to
/// nothing it asked.
void poke(const std::string& ibsim_base, std::uint32_t slot, const std::string& node_id) {
  const auto link = IbsimSlot::open(ibsim_base);
  if (link == nullptr || !link->attach(node_id) || link->slot() == slot) {
    return;
  }
  SimPacket packet;
  packet.dlid = 0xFFFF;
  packet.slid = 0xFFFF;
  packet.mad = make_directed_get({}, kAttrNodeInfo, 0, std::uint64_t{slot} << 48);
  MadHeader header = get_mad_header(packet.mad);
  header.method = kMethodGet | kMethodResponse;
  header.status = 0x8000;  // direction: returning
  put_mad_header(packet.mad, header);
  static_cast<void>(link->send(packet));
  // Detaching waits for ibsim's answer on the control channel, so the packet has been handled
  // when this function returns only if ibsim reads in order; give it that by asking once more.
  static_cast<void>(link->attach(node_id));
}

}  // namespace

std::unique_ptr<SlotJournal> SlotJournal::open(const std::string& dir) {
  const std::string path = dir + "/" + kSlotJournalFile;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return nullptr;
  }
  void* memory = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(sizeof(File))) == 0) {
    memory = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  close(fd);
  if (memory == MAP_FAILED) {
    errno = error;
    return nullptr;
  }
  return std::unique_ptr<SlotJournal>(new SlotJournal(static_cast<File*>(memory)));
}

SlotJournal::~SlotJournal() {
  munmap(file_, sizeof(File));
}

bool SlotJournal::recover(const std::string& ibsim_base) {
  const std::uint64_t instance = ibsim_instance(ibsim_base);
  const bool same = instance != 0 && instance == file_->instance;
  for (std::uint32_t slot = 0; slot < kIbsimSlots; ++slot) {
    File::Entry& entry = file_->entries[slot];
    if (same && entry.used != 0) {
      const std::string node_id(entry.node_id.data(),
                                strnlen(entry.node_id.data(), entry.node_id.size()));
      log_line("giving back ibsim client slot %u at %s, left by an agent that was killed", slot,
               node_id.c_str());
      poke(ibsim_base, slot, node_id);
    }
    entry.used = 0;
  }
  base_ = ibsim_base;
  instance_ = instance;
  file_->instance = instance;
  return same;
}

void SlotJournal::taken(std::uint32_t slot, const std::string& node_id) {
  if (slot < kIbsimSlots) {
    // When recover() found no ibsim yet, it has come up since, or it could not give slots.
    std::uint64_t unknown = 0;
    if (instance_.load() == 0) {
      instance_.compare_exchange_strong(unknown, ibsim_instance(base_));
      file_->instance = instance_.load();
    }
    File::Entry& entry = file_->entries[slot];
    entry.node_id.fill('\0');
    std::copy_n(node_id.begin(), std::min(node_id.size(), entry.node_id.size() - 1),
                entry.node_id.begin());
    entry.used = 1;
  }
}

void SlotJournal::released(std::uint32_t slot) {
  if (slot < kIbsimSlots) {
    file_->entries[slot].used = 0;
  }
}

}  // namespace softhca
