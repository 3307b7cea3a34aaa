// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/fabric_view.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cerrno>
#include <cstring>

#include "softhca/fabric/shared_words.hpp"

namespace softhca {
namespace {

// A read is overtaken only when the writer publishes twice meanwhile, so a second try nearly
// always does; the bound is for a file that is not written by our writer.
constexpr int kReadTries = 10000;
constexpr int kMaxHops = 64;

bool write_locked(int fd) {
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
}

std::uint32_t bounded(std::uint32_t value, std::uint32_t limit) {
  return std::min(value, limit);
}

bool link_up(const SwitchPortRecord& port) {
  return port.state == kPortActive && port.phys_state == kPhysLinkUp;
}

/// An image as the walks see it: every index is checked before it is used, because the memory
/// belongs to somebody else.
class Walker {
 public:
  explicit Walker(const FabricImage& image)
      : image_(image),
        ports_(bounded(load_field(image.port_count), kMaxHcaPorts)),
        switches_(bounded(load_field(image.switch_count), kMaxSwitches)) {}

  [[nodiscard]] bool usable(PortIndex index) const {
    if (index >= ports_) {
      return false;
    }
    const PortRecord& port = image_.ports[index];
    return load_field(port.present) != 0 && load_field(port.state) == kPortActive;
  }

  [[nodiscard]] bool owns(PortIndex index, std::uint16_t dlid) const {
    const std::uint16_t lid = load_field(image_.ports[index].lid);
    const std::uint8_t lmc = load_field(image_.ports[index].lmc);
    return lid != 0 && lmc < 8 && dlid >= lid && dlid < lid + (1U << lmc);
  }

  [[nodiscard]] LinkRecord port_link(PortIndex index) const {
    return load_record(image_.ports[index].link);
  }

  /// The switch port at the far end of an ACTIVE link, or kind None.
  [[nodiscard]] bool enters_switch(const LinkRecord& link) const {
    return link.kind == LinkKind::SwitchPort && link.index < switches_ &&
           load_field(image_.switches[link.index].present) != 0 && link.port < kMaxPortsPerSwitch &&
           link_up(switch_port(link.index, link.port));
  }

  [[nodiscard]] SwitchPortRecord switch_port(std::uint32_t index, std::uint32_t port) const {
    return load_record(image_.switch_ports[index][port]);
  }

  [[nodiscard]] std::uint8_t route(std::uint32_t index, std::uint16_t dlid) const {
    if (dlid >= kLftEntries || dlid > load_field(image_.switches[index].lft_top)) {
      return kLftNoPort;
    }
    return load_field(image_.lfts[index][dlid]);
  }

  [[nodiscard]] PortMask members(std::uint32_t index, std::uint32_t mlid_offset) const {
    if (mlid_offset >= kMftEntries || mlid_offset >= load_field(image_.switches[index].mft_count)) {
      return PortMask{};
    }
    return load_record(image_.mfts[index][mlid_offset]);
  }

  [[nodiscard]] std::optional<PortIndex> unicast(PortIndex from, std::uint16_t dlid) const {
    if (!usable(from) || dlid == 0 || dlid >= kFirstMlid) {
      return std::nullopt;
    }
    if (owns(from, dlid)) {
      return from;
    }
    LinkRecord link = port_link(from);
    for (int hop = 0; hop < kMaxHops; ++hop) {
      if (link.kind == LinkKind::HcaPort) {
        if (usable(link.index) && owns(link.index, dlid)) {
          return link.index;
        }
        return std::nullopt;
      }
      if (!enters_switch(link)) {
        return std::nullopt;
      }
      const std::uint32_t at = link.index;
      const std::uint8_t out = route(at, dlid);
      if (out == 0 || out == kLftNoPort) {
        return std::nullopt;
      }
      const SwitchPortRecord exit = switch_port(at, out);
      if (!link_up(exit)) {
        return std::nullopt;
      }
      link = exit.link;
    }
    return std::nullopt;
  }

  void multicast(PortIndex from, std::uint16_t mlid, std::vector<PortIndex>& out) const {
    out.clear();
    if (!usable(from) || mlid < kFirstMlid || mlid == 0xFFFF) {
      return;
    }
    const LinkRecord first = port_link(from);
    if (first.kind == LinkKind::HcaPort) {
      if (usable(first.index)) {
        out.push_back(first.index);
      }
      return;
    }
    if (!enters_switch(first)) {
      return;
    }
    const std::uint32_t offset = mlid - kFirstMlid;
    const PortMask own = members(first.index, offset);
    if ((own[first.port / 64] >> (first.port % 64) & 1U) != 0) {
      out.push_back(from);
    }
    // A switch is walked once: MFTs are trees, and where they are not (while the subnet manager
    // rewrites them) the duplicates of a loop would not be delivered for long either.
    std::bitset<kMaxSwitches> seen;
    std::array<LinkRecord, kMaxSwitches> todo;
    std::size_t waiting = 0;
    seen.set(first.index);
    todo[waiting++] = first;
    while (waiting != 0) {
      const LinkRecord in = todo[--waiting];
      const PortMask mask = members(in.index, offset);
      for (std::uint32_t word = 0; word < mask.size(); ++word) {
        for (std::uint64_t bits = mask[word]; bits != 0; bits &= bits - 1) {
          const auto port = word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
          const SwitchPortRecord exit = switch_port(in.index, port);
          if (port == 0 || port == in.port || !link_up(exit)) {
            continue;
          }
          if (exit.link.kind == LinkKind::HcaPort) {
            if (usable(exit.link.index)) {
              out.push_back(exit.link.index);
            }
          } else if (enters_switch(exit.link) && !seen.test(exit.link.index)) {
            seen.set(exit.link.index);
            todo[waiting++] = exit.link;
          }
        }
      }
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }

 private:
  const FabricImage& image_;
  std::uint32_t ports_;
  std::uint32_t switches_;
};

std::string text_of(const std::array<char, 64>& description) {
  return {description.data(), strnlen(description.data(), description.size())};
}

std::string first_word(const std::string& text) {
  return text.substr(0, text.find(' '));
}

HcaInfo describe(const HcaRecord& record) {
  HcaInfo info;
  info.description = text_of(record.description);
  info.host = first_word(info.description);
  info.node_guid = record.node_guid;
  info.system_image_guid = record.system_image_guid;
  info.vendor_id = record.vendor_id;
  info.device_id = record.device_id;
  info.revision = record.revision;
  info.pkey_table_size = record.partition_cap;
  for (std::uint32_t i = 0; i < bounded(record.port_count, kMaxPortsPerHca); ++i) {
    info.ports.push_back(record.ports[i]);
  }
  return info;
}

}  // namespace

std::unique_ptr<FabricView> FabricView::attach(const char* dir) {
  if (dir == nullptr || *dir == '\0') {
    errno = ENOENT;
    return nullptr;
  }
  const std::string path = std::string(dir) + "/" + kFabricFile;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  const auto fail = [fd](int error) {
    close(fd);
    errno = error;
    return nullptr;
  };
  struct stat status = {};
  if (fstat(fd, &status) != 0) {
    return fail(errno);
  }
  if (!write_locked(fd)) {
    return fail(ENODEV);
  }
  if (!S_ISREG(status.st_mode) || status.st_size != static_cast<off_t>(sizeof(FabricFile))) {
    return fail(EPROTO);
  }
  void* memory = mmap(nullptr, sizeof(FabricFile), PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return fail(errno);
  }
  const auto* file = static_cast<const FabricFile*>(memory);
  std::unique_ptr<FabricView> view(new FabricView(fd, file));
  int error = 0;
  if (file->magic != kFabricMagic || file->version != kFabricVersion) {
    error = EPROTO;
  } else if (view->generation() == 0) {
    error = EAGAIN;
  }
  if (error != 0) {
    view.reset();
    errno = error;
  }
  return view;
}

FabricView::~FabricView() {
  munmap(const_cast<FabricFile*>(file_), sizeof(FabricFile));
  close(fd_);
}

std::uint64_t FabricView::generation() const {
  return file_->generation.load(std::memory_order_acquire);
}

bool FabricView::writer_alive() const {
  return write_locked(fd_);
}

template <typename Body>
bool FabricView::read(Body&& body) const {
  for (int i = 0; i < kReadTries; ++i) {
    const std::uint32_t active = file_->active.load(std::memory_order_acquire) & 1U;
    const FabricImage& image = file_->images[active];
    const std::uint64_t before = image.sequence.load(std::memory_order_acquire);
    if ((before & 1U) == 0) {
      body(image);
      if (image.sequence.load(std::memory_order_relaxed) == before) {
        return true;
      }
    }
    if (i % 16 == 15) {
      sched_yield();
    }
  }
  return false;
}

std::vector<HcaInfo> FabricView::all_hcas() const {
  std::vector<HcaRecord> records;
  const bool whole = read([&records](const FabricImage& image) {
    records.clear();
    const std::uint32_t count = bounded(load_field(image.hca_count), kMaxHcas);
    for (std::uint32_t i = 0; i < count; ++i) {
      HcaRecord record = load_record(image.hcas[i]);
      if (record.present != 0) {
        records.push_back(record);
      }
    }
  });
  std::vector<HcaInfo> hcas;
  if (!whole) {
    return hcas;
  }
  for (const HcaRecord& record : records) {
    hcas.push_back(describe(record));
  }
  std::sort(hcas.begin(), hcas.end(), [](const HcaInfo& a, const HcaInfo& b) {
    return a.host != b.host ? a.host < b.host : a.node_guid < b.node_guid;
  });
  for (std::size_t i = 0, number = 0; i < hcas.size(); ++i, ++number) {
    if (i != 0 && hcas[i].host != hcas[i - 1].host) {
      number = 0;
    }
    hcas[i].name = "softhca" + std::to_string(number);
  }
  return hcas;
}

std::vector<HcaInfo> FabricView::hcas_of(std::string_view host) const {
  std::vector<HcaInfo> hcas = all_hcas();
  std::erase_if(hcas, [host](const HcaInfo& hca) { return hca.host != host; });
  return hcas;
}

PortAttr FabricView::port(PortIndex index) const {
  PortAttr attr;
  const bool whole = read([&attr, index](const FabricImage& image) {
    const bool known = index < bounded(load_field(image.port_count), kMaxHcaPorts);
    static_cast<PortRecord&>(attr) = known ? load_record(image.ports[index]) : PortRecord{};
  });
  if (!whole) {
    attr = PortAttr{};
  }
  attr.gid_count = std::min<std::uint16_t>(attr.gid_count, kMaxGids);
  attr.pkey_count = std::min<std::uint16_t>(attr.pkey_count, kMaxPkeys);
  attr.lmc = std::min<std::uint8_t>(attr.lmc, 7);
  return attr;
}

PortBrief FabricView::brief(PortIndex index) const {
  PortBrief brief;
  const bool whole = read([&brief, index](const FabricImage& image) {
    brief = PortBrief{};
    if (index >= bounded(load_field(image.port_count), kMaxHcaPorts)) {
      return;
    }
    const PortRecord& port = image.ports[index];
    brief.node_guid = load_field(port.node_guid);
    brief.subnet_prefix = load_field(port.subnet_prefix);
    brief.port_guid = load_field(port.port_guid);
    brief.lid = load_field(port.lid);
    brief.lmc = std::min<std::uint8_t>(load_field(port.lmc), 7);
    brief.state = load_field(port.state);
    brief.active_mtu = load_field(port.active_mtu);
    brief.present = load_field(port.present) != 0;
  });
  return whole ? brief : PortBrief{};
}

std::uint32_t FabricView::port_count() const {
  std::uint32_t count = 0;
  read([&count](const FabricImage& image) {
    count = bounded(load_field(image.port_count), kMaxHcaPorts);
  });
  return count;
}

std::optional<PortIndex> FabricView::unicast(PortIndex from, std::uint16_t dlid) const {
  std::optional<PortIndex> target;
  const bool whole =
      read([&](const FabricImage& image) { target = Walker(image).unicast(from, dlid); });
  return whole ? target : std::nullopt;
}

void FabricView::multicast(PortIndex from, std::uint16_t mlid, std::vector<PortIndex>& out) const {
  const bool whole =
      read([&](const FabricImage& image) { Walker(image).multicast(from, mlid, out); });
  if (!whole) {
    out.clear();
  }
}

std::vector<FabricView::SwitchInfo> FabricView::switches() const {
  std::vector<SwitchInfo> list;
  const bool whole = read([&list](const FabricImage& image) {
    list.clear();
    const std::uint32_t count = bounded(load_field(image.switch_count), kMaxSwitches);
    for (std::uint32_t i = 0; i < count; ++i) {
      const SwitchRecord record = load_record(image.switches[i]);
      if (record.present == 0) {
        continue;
      }
      SwitchInfo info;
      info.description = text_of(record.description);
      info.node_guid = record.node_guid;
      info.lid = record.lid;
      info.port_count = record.port_count;
      info.lft_top = record.lft_top;
      for (std::uint32_t m = 0; m < bounded(record.mft_count, kMftEntries); ++m) {
        if (load_record(image.mfts[i][m]) != PortMask{}) {
          ++info.mlids_in_use;
        }
      }
      list.push_back(info);
    }
  });
  return whole ? list : std::vector<SwitchInfo>{};
}

}  // namespace softhca
