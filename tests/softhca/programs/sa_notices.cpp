// SPDX-License-Identifier: BSD-3-Clause
// Subscribes to traps at the subnet administrator (InformInfo) and prints the reports that come,
// by libibumad alone:
//   sa_notices [--silent] [--leave-after N] TRAP...
// --silent answers no report, so that they come again. After N reports, repetitions not counted,
// --leave-after ends the subscriptions and goes on listening. Prints
//   subscribed TRAP | unsubscribed TRAP | trap TRAP lid ISSUER gid SUBJECT tid ID
// a line each, SUBJECT being 32 digits (of traps 64 to 67). Runs until it is killed; exit status 3
// the administrator refused, 4 it did not answer, 1 anything else.
#include <infiniband/umad.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kMadBytes = 256;
using Mad = std::array<std::uint8_t, kMadBytes>;

constexpr unsigned kClassSa = 3;
constexpr unsigned kSet = 0x02;
constexpr unsigned kReport = 0x06;
constexpr unsigned kReportResp = 0x86;
constexpr unsigned kInformInfo = 0x0003;
constexpr unsigned kNotice = 0x0002;
constexpr std::size_t kRecord = 56;  // of the SA's header
constexpr int kWellKnownQkey = static_cast<int>(0x80010000);

void put(Mad& mad, std::size_t at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0; value >>= 8) {
    mad[at + i] = static_cast<std::uint8_t>(value & 0xFF);
  }
}

std::uint64_t get(const Mad& mad, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value = value << 8 | mad[at + i];
  }
  return value;
}

int fail(const char* what) {
  std::fprintf(stderr, "sa_notices: %s: %s\n", what, std::strerror(errno));
  return 1;
}

class Subscriber {
 public:
  Subscriber() = default;
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;
  ~Subscriber() {
    umad_free(umad_);
    if (fd_ >= 0) {
      umad_close_port(fd_);
    }
  }

  bool open() {
    umad_port_t port;
    if (umad_get_port(nullptr, 0, &port) != 0) {
      return false;
    }
    sm_lid_ = static_cast<int>(port.sm_lid);
    umad_release_port(&port);
    std::array<long, 16 / sizeof(long)> methods{};
    methods[0] = 1L << kReport;
    fd_ = umad_open_port(nullptr, 0);
    agent_ = fd_ < 0 ? -1 : umad_register(fd_, kClassSa, 2, 0, methods.data());
    umad_ = umad_alloc(1, umad_size() + kMadBytes);
    return agent_ >= 0 && umad_ != nullptr;
  }

  /// 0, or the exit status. Reports that come meanwhile are handled.
  int subscribe(unsigned trap, bool on, bool silent) {
    Mad mad{};
    put(mad, 0, 0x01000000U | kClassSa << 16 | 2U << 8 | kSet, 4);
    put(mad, 8, ++transaction_, 8);
    put(mad, 16, kInformInfo, 2);
    put(mad, kRecord + 16, 0xFFFF, 2);  // of all LIDs
    put(mad, kRecord + 22, 1, 1);       // generic
    put(mad, kRecord + 23, on ? 1 : 0, 1);
    put(mad, kRecord + 24, 0xFFFF, 2);  // of all types
    put(mad, kRecord + 26, trap, 2);
    put(mad, kRecord + 28, 1U << 8 | 18U, 4);  // to QP 1; answered within 1 s
    put(mad, kRecord + 33, 0xFFFFFF, 3);       // by all kinds of nodes
    umad_set_addr(umad_, sm_lid_, 1, 0, kWellKnownQkey);
    std::memcpy(umad_get_mad(umad_), mad.data(), mad.size());
    if (umad_send(fd_, agent_, umad_, kMadBytes, 2000, 5) != 0) {
      return fail("umad_send");
    }
    for (;;) {
      Mad got{};
      const int status = receive(got);
      if (status != 0) {
        return status;
      }
      if (get(got, 3, 1) == kReport) {
        handle(got, silent);
        continue;
      }
      const auto refused = static_cast<unsigned>(get(got, 4, 2));
      if (refused != 0) {
        std::fprintf(stderr, "sa_notices: the administrator says status 0x%04x\n", refused);
        return 3;
      }
      std::printf("%s %u\n", on ? "subscribed" : "unsubscribed", trap);
      return 0;
    }
  }

  /// 0 and a MAD, or the exit status. Waits for ever.
  int receive(Mad& got) {
    int length = static_cast<int>(got.size());
    if (umad_recv(fd_, umad_, &length, -1) < 0) {
      return fail("umad_recv");
    }
    if (umad_status(umad_) != 0) {
      std::fprintf(stderr, "sa_notices: no answer: %s\n", std::strerror(umad_status(umad_)));
      return 4;
    }
    std::memcpy(got.data(), umad_get_mad(umad_), got.size());
    return 0;
  }

  /// Prints a report and, unless silent, answers it.
  void handle(const Mad& report, bool silent) {
    if (get(report, 3, 1) != kReport || get(report, 16, 2) != kNotice) {
      return;
    }
    const std::uint64_t id = get(report, 8, 8);
    std::printf("trap %u lid %u gid %016llx%016llx tid %llx\n",
                static_cast<unsigned>(get(report, kRecord + 4, 2)),
                static_cast<unsigned>(get(report, kRecord + 6, 2)),
                static_cast<unsigned long long>(get(report, kRecord + 16, 8)),
                static_cast<unsigned long long>(get(report, kRecord + 24, 8)),
                static_cast<unsigned long long>(id));
    seen_.insert(id);
    if (silent) {
      return;
    }
    // The address it came from is in the buffer already; only the Q_Key is the sender's to name.
    auto* header = static_cast<ib_user_mad*>(umad_);
    const unsigned source = be16(header->addr.lid);
    umad_set_addr(umad_, static_cast<int>(source), 1, header->addr.sl, kWellKnownQkey);
    Mad answer = report;
    put(answer, 3, kReportResp, 1);
    std::memcpy(umad_get_mad(umad_), answer.data(), answer.size());
    if (umad_send(fd_, agent_, umad_, kMadBytes, 0, 0) != 0) {
      fail("answering a report");
    }
  }

  [[nodiscard]] std::size_t reports() const { return seen_.size(); }

 private:
  static unsigned be16(std::uint16_t value) {
    std::array<std::uint8_t, 2> bytes{};
    std::memcpy(bytes.data(), &value, sizeof value);
    return static_cast<unsigned>(bytes[0] << 8 | bytes[1]);
  }

  int fd_ = -1;
  int agent_ = -1;
  int sm_lid_ = 0;
  void* umad_ = nullptr;
  std::uint64_t transaction_ = 0x100;
  std::set<std::uint64_t> seen_;
};

int run(const std::vector<unsigned>& traps, bool silent, std::size_t leave_after) {
  Subscriber subscriber;
  if (!subscriber.open()) {
    return fail("no port, or it does not register for reports");
  }
  for (const unsigned trap : traps) {
    const int status = subscriber.subscribe(trap, true, silent);
    if (status != 0) {
      return status;
    }
  }
  bool left = false;
  for (;;) {
    Mad got{};
    const int status = subscriber.receive(got);
    if (status != 0) {
      return status;
    }
    subscriber.handle(got, silent);
    if (leave_after == 0 || left || subscriber.reports() < leave_after) {
      continue;
    }
    left = true;
    for (const unsigned trap : traps) {
      const int refused = subscriber.subscribe(trap, false, silent);
      if (refused != 0) {
        return refused;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool silent = false;
  std::size_t leave_after = 0;
  std::vector<unsigned> traps;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--silent") {
      silent = true;
    } else if (word == "--leave-after" && i + 1 < argc) {
      leave_after = std::strtoul(argv[++i], nullptr, 0);
    } else {
      traps.push_back(static_cast<unsigned>(std::strtoul(argv[i], nullptr, 0)));
    }
  }
  if (traps.empty() || traps.front() == 0) {
    std::fputs("usage: sa_notices [--silent] [--leave-after N] TRAP...\n", stderr);
    return 1;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return run(traps, silent, leave_after);
}
