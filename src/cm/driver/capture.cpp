// SPDX-License-Identifier: BSD-3-Clause
#include "cm/driver/capture.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <utility>

#include "cm/driver/ib_packet.hpp"
#include "cm/driver/pcapng.hpp"
#include "mad/header.hpp"

namespace wireup::cm {
namespace {

std::uint64_t wall_clock_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::string host_name() {
  std::array<char, 256> name{};
  // A longer name is cut; the last byte stays 0.
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

Result<std::string> capture_file(std::string_view pattern, const CaptureEnd& end) {
  std::string file;
  bool is_own = end.job_size <= 1;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      file += pattern[i];
      continue;
    }
    const char letter = ++i < pattern.size() ? pattern[i] : '\0';
    switch (letter) {
      case 'r':
        file += std::to_string(end.rank);
        is_own = true;
        break;
      case 'p':
        file += std::to_string(::getpid());
        is_own = true;
        break;
      case 'h':
        file += host_name();
        break;
      case '%':
        file += '%';
        break;
      default:
        return fail(Error::make(Errc::InvalidArgument,
                                "the capture file '%.*s': use %%r (rank), %%p (process), %%h "
                                "(host) or %%%%",
                                static_cast<int>(pattern.size()), pattern.data()));
    }
  }
  if (!is_own) {
    file += '.' + std::to_string(end.rank);
  }
  return file;
}

Capture::Capture(UniqueFd fd, std::string file, CaptureEnd end) noexcept
    : fd_(std::move(fd)), file_(std::move(file)), end_(std::move(end)) {}

Result<Capture> Capture::open(std::string_view pattern, CaptureEnd end) {
  auto file = capture_file(pattern, end);
  if (!file) {
    return fail(file.error());
  }
  UniqueFd fd(::open(file->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.is_open()) {
    return fail(
        Error::system(Errc::InvalidArgument, errno, "the capture file '%s'", file->c_str()));
  }
  Capture capture(std::move(fd), std::move(*file), std::move(end));
  const std::string about = "rank " + std::to_string(capture.end_.rank) + " of " +
                            std::to_string(capture.end_.job_size) + ", process " +
                            std::to_string(::getpid()) + " on " + host_name();
  capture.write(pcapng::section_header("wireup", about));
  capture.write(pcapng::interface_description(capture.end_.port));
  if (capture.fault_.has_value()) {
    return fail(*capture.fault_);
  }
  return capture;
}

void Capture::sent(const Transmit& transmit) {
  add(transmit.to, true, transmit.is_retransmit, transmit.bytes);
}

void Capture::received(const Address& from, std::span<const std::uint8_t> bytes) {
  add(from, false, false, bytes);
}

void Capture::add(const Address& peer, bool is_outbound, bool is_retransmit,
                  std::span<const std::uint8_t> bytes) {
  if (fault_.has_value()) {
    return;
  }
  const std::uint64_t time_ns = wall_clock_ns();
  std::uint64_t& count = is_outbound ? sent_ : received_;
  const Lid mine(static_cast<std::uint16_t>(end_.lid.value() | peer.path_bits));
  UdPacket packet;
  packet.slid = is_outbound ? mine : peer.dlid;
  packet.dlid = is_outbound ? peer.dlid : mine;
  packet.sl = peer.sl;
  if (peer.has_grh) {
    packet.global =
        GlobalRoute{is_outbound ? end_.gid : peer.dgid, is_outbound ? peer.dgid : end_.gid,
                    peer.flow_label, peer.traffic_class, peer.hop_limit};
  }
  packet.pkey = end_.pkey;
  packet.source_qpn = packet.destination_qpn = Qpn(mad::kGsiQpn);
  packet.psn = Psn(static_cast<std::uint32_t>(count & Psn::kMax));
  packet.qkey = end_.qkey;
  packet.payload = bytes;

  const Qpn from = is_outbound ? end_.qpn : peer.qpn;
  const Qpn to = is_outbound ? peer.qpn : end_.qpn;
  std::array<char, 64> comment{};
  std::snprintf(comment.data(), comment.size(), "QP 0x%06x to QP 0x%06x%s", from.value(),
                to.value(), is_retransmit ? ", sent again" : "");
  write(pcapng::enhanced_packet({time_ns, is_outbound, comment.data()}, serialize(packet)));
  if (!fault_.has_value()) {
    ++count;
  }
}

void Capture::write(std::span<const std::uint8_t> block) {
  while (!block.empty() && !fault_.has_value()) {
    const ssize_t put = ::write(fd_.value(), block.data(), block.size());
    if (put > 0) {
      block = block.subspan(static_cast<std::size_t>(put));
    } else if (put == 0 || errno != EINTR) {
      fault_ = Error::system(Errc::NoResources, put == 0 ? EIO : errno,
                             "writing the capture file '%s'", file_.c_str());
    }
  }
}

}  // namespace wireup::cm
