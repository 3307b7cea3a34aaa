// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/fabric_writer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "softhca/fabric/shared_words.hpp"

namespace softhca {
namespace {

bool take_lock(int fd) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool valid_link(const LinkRecord& link, const FabricModel& model) {
  switch (link.kind) {
    case LinkKind::None:
      return true;
    case LinkKind::HcaPort:
      return link.index < model.ports.size();
    case LinkKind::SwitchPort:
      return link.index < model.switches.size() &&
             link.port < model.switches[link.index].ports.size();
  }
  return false;
}

int check(const FabricModel& model) {
  if (model.hcas.size() > kMaxHcas || model.ports.size() > kMaxHcaPorts ||
      model.switches.size() > kMaxSwitches) {
    return ENOSPC;
  }
  for (const HcaRecord& hca : model.hcas) {
    if (hca.port_count > kMaxPortsPerHca) {
      return ENOSPC;
    }
    for (std::uint32_t i = 0; i < hca.port_count; ++i) {
      if (hca.ports[i] >= model.ports.size()) {
        return EINVAL;
      }
    }
  }
  for (const PortRecord& port : model.ports) {
    if (port.hca_index >= model.hcas.size() || port.gid_count > kMaxGids ||
        port.pkey_count > kMaxPkeys || port.lmc > 7 || !valid_link(port.link, model)) {
      return EINVAL;
    }
  }
  for (const SwitchModel& node : model.switches) {
    if (node.ports.size() > kMaxPortsPerSwitch || node.lft.size() > kLftEntries ||
        node.mft.size() > kMftEntries) {
      return ENOSPC;
    }
    for (const SwitchPortRecord& port : node.ports) {
      if (!valid_link(port.link, model)) {
        return EINVAL;
      }
    }
  }
  return 0;
}

template <typename Array, typename List>
void store_list(Array& shared, const List& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    store_record(shared[i], list[i]);
  }
}

void store_switch(FabricImage& image, std::size_t index, const SwitchModel& node) {
  SwitchRecord record = node.record;
  record.lft_top = node.lft.empty() ? 0 : static_cast<std::uint32_t>(node.lft.size() - 1);
  record.mft_count = static_cast<std::uint32_t>(node.mft.size());
  store_record(image.switches[index], record);
  auto& ports = image.switch_ports[index];
  store_list(ports, node.ports);
  for (std::size_t i = node.ports.size(); i < ports.size(); ++i) {
    // Ports this switch does not have: only touch the page when something is there.
    if (load_record(ports[i].link).kind != LinkKind::None) {
      store_record(ports[i], SwitchPortRecord{});
    }
  }
  auto& lft = image.lfts[index];
  for (std::size_t i = 0; i < node.lft.size(); ++i) {
    store_field(lft[i], node.lft[i]);
  }
  if (node.lft.empty()) {
    store_field(lft[0], kLftNoPort);
  }
  store_list(image.mfts[index], node.mft);
}

}  // namespace

std::unique_ptr<FabricWriter> FabricWriter::open(const char* dir) {
  const std::string path = std::string(dir) + "/" + kFabricFile;
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return nullptr;
  }
  const auto fail = [fd](int error) {
    close(fd);
    errno = error;
    return nullptr;
  };
  if (!take_lock(fd)) {
    return fail(errno == EAGAIN || errno == EACCES ? EBUSY : errno);
  }
  if (ftruncate(fd, static_cast<off_t>(sizeof(FabricFile))) != 0) {
    return fail(errno);
  }
  void* memory = mmap(nullptr, sizeof(FabricFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return fail(errno);
  }
  auto* file = static_cast<FabricFile*>(memory);
  if (file->magic != kFabricMagic || file->version != kFabricVersion) {
    // New, or of another version whose readers cannot be served: start from nothing.
    if (ftruncate(fd, 0) != 0 || ftruncate(fd, static_cast<off_t>(sizeof(FabricFile))) != 0) {
      const int error = errno;
      munmap(memory, sizeof(FabricFile));
      return fail(error);
    }
    file->version = kFabricVersion;
    file->size = sizeof(FabricFile);
    file->magic = kFabricMagic;
  }
  file->writer_pid = static_cast<std::uint32_t>(getpid());
  return std::unique_ptr<FabricWriter>(new FabricWriter(fd, file));
}

FabricWriter::~FabricWriter() {
  munmap(file_, sizeof(FabricFile));
  close(fd_);
}

std::uint64_t FabricWriter::generation() const {
  return file_->generation.load(std::memory_order_relaxed);
}

bool FabricWriter::publish(const FabricModel& model) {
  const int error = check(model);
  if (error != 0) {
    errno = error;
    return false;
  }
  if (last_ && *last_ == model) {
    return true;
  }
  const std::uint32_t next = 1U - (file_->active.load(std::memory_order_relaxed) & 1U);
  FabricImage& image = file_->images[next];
  // A writer that died here left an odd number; going on from it keeps numbers unique.
  const std::uint64_t odd = image.sequence.load(std::memory_order_relaxed) | 1U;
  image.sequence.store(odd, std::memory_order_relaxed);

  store_list(image.hcas, model.hcas);
  store_list(image.ports, model.ports);
  for (std::size_t i = 0; i < model.switches.size(); ++i) {
    store_switch(image, i, model.switches[i]);
  }
  store_field(image.hca_count, static_cast<std::uint32_t>(model.hcas.size()));
  store_field(image.port_count, static_cast<std::uint32_t>(model.ports.size()));
  store_field(image.switch_count, static_cast<std::uint32_t>(model.switches.size()));
  const std::uint64_t generation = this->generation() + 1;
  store_field(image.generation, generation);

  image.sequence.store(odd + 1, std::memory_order_release);
  file_->active.store(next, std::memory_order_release);
  file_->generation.store(generation, std::memory_order_release);
  last_ = model;
  return true;
}

FabricModel FabricWriter::published() const {
  FabricModel model;
  if (generation() == 0) {
    return model;
  }
  const FabricImage& image = file_->images[file_->active.load(std::memory_order_relaxed) & 1U];
  const std::uint32_t hcas = std::min(image.hca_count, kMaxHcas);
  const std::uint32_t ports = std::min(image.port_count, kMaxHcaPorts);
  const std::uint32_t switches = std::min(image.switch_count, kMaxSwitches);
  model.hcas.assign(image.hcas.begin(), image.hcas.begin() + hcas);
  model.ports.assign(image.ports.begin(), image.ports.begin() + ports);
  for (std::uint32_t i = 0; i < switches; ++i) {
    SwitchModel node;
    node.record = image.switches[i];
    const auto& links = image.switch_ports[i];
    const std::uint32_t count = std::min(node.record.port_count, kMaxPortsPerSwitch - 1) + 1;
    node.ports.assign(links.begin(), links.begin() + count);
    const std::uint32_t top = std::min(node.record.lft_top, kLftEntries - 1);
    node.lft.assign(image.lfts[i].begin(), image.lfts[i].begin() + top + 1);
    const std::uint32_t mlids = std::min(node.record.mft_count, kMftEntries);
    node.mft.assign(image.mfts[i].begin(), image.mfts[i].begin() + mlids);
    model.switches.push_back(std::move(node));
  }
  return model;
}

}  // namespace softhca
