// SPDX-License-Identifier: BSD-3-Clause
// The bytes of captures, written out by offset; what tshark makes of them: test_capture.py.
#include "cm/driver/capture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/bytes.hpp"
#include "cm/driver/ib_packet.hpp"
#include "cm/driver/pcapng.hpp"

namespace wireup::cm {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;

/// The sample packet of IBTA vol 1, 7.8: a local RDMA WRITE of 14 bytes, from its LRH to its
/// padding.
const Bytes kSample{0x70, 0x12, 0x37, 0x5C, 0x00, 0x0E, 0x17, 0xD2,              // LRH
                    0x0A, 0x20, 0x24, 0x87, 0x00, 0x87, 0xB1, 0xB3,              // BTH
                    0x00, 0x0D, 0xEC, 0x2A,                                      //
                    0x01, 0x71, 0x0A, 0x1C, 0x01, 0x5D, 0x40, 0x02,              // RETH
                    0x38, 0xF2, 0x7A, 0x05, 0x00, 0x00, 0x00, 0x0E,              //
                    0xBB, 0x88, 0x4D, 0x85, 0xFD, 0x5C, 0xFB, 0xA4, 0x72, 0x8B,  // data
                    0xC0, 0x69, 0x0E, 0xD4, 0x00, 0x00};

TEST(IbPacket, TheSpecificationsSampleHasItsCrcs) {
  EXPECT_EQ(invariant_crc(kSample), 0x5AB72596U);
  Bytes whole = kSample;
  whole.insert(whole.end(), {0x96, 0x25, 0xB7, 0x5A});
  EXPECT_EQ(variant_crc(whole), 0xFA45U);
}

UdPacket packet_of(std::span<const std::uint8_t> payload) {
  UdPacket packet;
  packet.slid = Lid(0x1122);
  packet.dlid = Lid(0x3344);
  packet.sl = Sl(5);
  packet.pkey = PKey(0x8ABC);
  packet.destination_qpn = Qpn(0x010203);
  packet.psn = Psn(0x040506);
  packet.qkey = QKey(0x80010000);
  packet.source_qpn = Qpn(0x070809);
  packet.payload = payload;
  return packet;
}

GlobalRoute route() {
  GlobalRoute global;
  Gid::Bytes gid{};
  for (std::uint8_t i = 0; i < 16; ++i) {
    gid[i] = static_cast<std::uint8_t>(0x10 + i);
  }
  global.sgid = Gid(gid);
  gid[0] = 0xFE;
  global.dgid = Gid(gid);
  global.flow_label = FlowLabel(0xABCDE);
  global.traffic_class = 0x5A;
  global.hop_limit = 0x3F;
  return global;
}

TEST(IbPacket, ALocalPacketHasEveryFieldInItsPlace) {
  const Bytes payload(256, 0x77);
  const Bytes bytes = serialize(packet_of(payload));
  ASSERT_EQ(bytes.size(), 290U);
  const Bytes head{0x00, 0x52, 0x33, 0x44, 0x00, 0x48, 0x11, 0x22,  // 72 words, VCRC left out
                   0x64, 0x00, 0x8A, 0xBC, 0x00, 0x01, 0x02, 0x03, 0x00, 0x04,
                   0x05, 0x06, 0x80, 0x01, 0x00, 0x00, 0x00, 0x07, 0x08, 0x09};
  EXPECT_TRUE(std::equal(head.begin(), head.end(), bytes.begin()));
  EXPECT_EQ(Bytes(bytes.begin() + 28, bytes.begin() + 284), payload);
  const std::uint32_t icrc = invariant_crc(std::span(bytes).first(284));
  EXPECT_EQ(bytes[284], icrc & 0xFF) << "the least significant byte first";
  EXPECT_EQ(bytes[287], icrc >> 24);
  const std::uint16_t vcrc = variant_crc(std::span(bytes).first(288));
  EXPECT_EQ(bytes[288], vcrc & 0xFF);
  EXPECT_EQ(bytes[289], vcrc >> 8);
}

TEST(IbPacket, AGlobalPacketHasItsRoute) {
  const Bytes payload(256, 0x77);
  UdPacket packet = packet_of(payload);
  packet.global = route();
  const Bytes bytes = serialize(packet);
  ASSERT_EQ(bytes.size(), 330U);
  EXPECT_EQ(bytes[1], 0x53) << "a GRH follows";
  EXPECT_EQ(load_be(bytes, 4, 2), 82U);
  EXPECT_EQ(load_be(bytes, 8, 4), 0x65AABCDEU);
  EXPECT_EQ(load_be(bytes, 12, 2), 280U) << "from the BTH to the ICRC";
  EXPECT_EQ(bytes[14], 0x1B);
  EXPECT_EQ(bytes[15], 0x3F);
  EXPECT_TRUE(
      std::equal(bytes.begin() + 16, bytes.begin() + 32, packet.global->sgid.bytes().begin()));
  EXPECT_TRUE(
      std::equal(bytes.begin() + 32, bytes.begin() + 48, packet.global->dgid.bytes().begin()));
  EXPECT_EQ(bytes[48], 0x64);
  EXPECT_EQ(load_be(bytes, 53, 3), 0x010203U);
}

/// Every bit of a packet counts in its ICRC but those that switches or routers may change.
TEST(IbPacket, TheInvariantCrcLeavesOutWhatChangesOnTheWay) {
  const Bytes payload(16, 0x77);
  for (const bool global : {false, true}) {
    UdPacket packet = packet_of(payload);
    if (global) {
      packet.global = route();
    }
    const Bytes whole = serialize(packet);
    const Bytes bytes(whole.begin(), whole.end() - 6);
    const std::size_t bth = global ? 48 : 8;
    const auto may_change = [&](std::size_t byte, unsigned bit) {
      if (!global) {
        return (byte == 0 && bit >= 4) || byte == bth + 4;
      }
      return byte < 8 || (byte == 8 && bit < 4) || (byte >= 9 && byte <= 11) || byte == 15 ||
             byte == bth + 4;
    };
    for (std::size_t byte = 0; byte < bytes.size(); ++byte) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        if (byte == 1 && bit < 2) {
          continue;  // what follows the LRH: then it is another packet
        }
        Bytes changed = bytes;
        changed[byte] = static_cast<std::uint8_t>(changed[byte] ^ 1U << bit);
        EXPECT_EQ(invariant_crc(changed) == invariant_crc(bytes), may_change(byte, bit))
            << "global " << global << " byte " << byte << " bit " << bit;
      }
    }
  }
}

TEST(IbPacket, PayloadsArePaddedToWords) {
  for (std::size_t size = 0; size <= 9; ++size) {
    const Bytes payload(size, 0x77);
    const Bytes bytes = serialize(packet_of(payload));
    const std::size_t padding = (4 - size % 4) % 4;
    EXPECT_EQ(bytes.size(), 28 + size + padding + 6) << size;
    EXPECT_EQ(bytes[9], padding << 4) << size;
    EXPECT_EQ(load_be(bytes, 4, 2), (bytes.size() - 2) / 4) << size;
  }
  const Bytes longest(kMaxPayload + 5, 1);
  EXPECT_EQ(serialize(packet_of(longest)).size(), 28 + kMaxPayload + 6);
}

std::uint32_t load_le(const Bytes& bytes, std::size_t at, std::size_t size = 4) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value |= static_cast<std::uint32_t>(bytes.at(at + i)) << (8 * i);
  }
  return value;
}

TEST(Pcapng, TheFirstBlocksSayWhatFollows) {
  const Bytes section = pcapng::section_header("wireup", "rank 3");
  EXPECT_EQ(load_le(section, 0), 0x0A0D0D0AU);
  EXPECT_EQ(load_le(section, 4), section.size());
  EXPECT_EQ(load_le(section, 8), 0x1A2B3C4DU);
  EXPECT_EQ(load_le(section, 12), 1U) << "version 1.0";
  EXPECT_EQ(load_le(section, 16), 0xFFFFFFFFU);
  EXPECT_EQ(load_le(section, 20), 0xFFFFFFFFU);
  EXPECT_EQ(load_le(section, 24), 0x00060001U) << "a comment of 6 bytes";
  EXPECT_EQ(std::string(section.begin() + 28, section.begin() + 34), "rank 3");
  EXPECT_EQ(load_le(section, 36), 0x00060004U) << "the application's name";
  EXPECT_EQ(load_le(section, 48), 0U) << "the end of the options";
  EXPECT_EQ(load_le(section, 52), section.size());
  ASSERT_EQ(section.size(), 56U);

  const Bytes interface = pcapng::interface_description("a:1");
  EXPECT_EQ(load_le(interface, 0), 1U);
  EXPECT_EQ(load_le(interface, 4), interface.size());
  EXPECT_EQ(load_le(interface, 8), 197U) << "ERF";
  EXPECT_EQ(load_le(interface, 12), 0U);
  EXPECT_EQ(load_le(interface, 16), 0x00030002U);
  EXPECT_EQ(load_le(interface, 24), 0x00010009U) << "the unit of times:";
  EXPECT_EQ(load_le(interface, 28), 9U) << "nanoseconds";
  ASSERT_EQ(interface.size(), 40U);
}

TEST(Pcapng, APacketIsAnErfRecord) {
  const Bytes packet(290, 0x5A);
  // 2023-11-14 22:13:20.5 UTC
  const Bytes block =
      pcapng::enhanced_packet({1'700'000'000'500'000'000ULL, false, "hello"}, packet);
  EXPECT_EQ(load_le(block, 0), 6U);
  EXPECT_EQ(load_le(block, 4), block.size());
  EXPECT_EQ(load_le(block, 8), 0U);
  EXPECT_EQ(std::uint64_t{load_le(block, 12)} << 32 | load_le(block, 16),
            1'700'000'000'500'000'000ULL);
  EXPECT_EQ(load_le(block, 20), 306U);
  EXPECT_EQ(load_le(block, 24), 306U);
  EXPECT_EQ(load_le(block, 28), 0x80000000U) << "half a second";
  EXPECT_EQ(load_le(block, 32), 1'700'000'000U);
  EXPECT_EQ(block[36], 21) << "InfiniBand";
  EXPECT_EQ(block[37], 0x04);
  EXPECT_EQ(load_be(block, 38, 2), 306U);
  EXPECT_EQ(load_be(block, 40, 2), 0U);
  EXPECT_EQ(load_be(block, 42, 2), 290U);
  EXPECT_EQ(Bytes(block.begin() + 44, block.begin() + 334), packet);
  EXPECT_EQ(load_le(block, 336), 0x00050001U) << "behind two bytes of padding";
  EXPECT_EQ(std::string(block.begin() + 340, block.begin() + 345), "hello");
  EXPECT_EQ(load_le(block, 348), 0x00040002U);
  EXPECT_EQ(load_le(block, 352), 1U) << "inbound";
  EXPECT_EQ(load_le(block, 356), 0U);
  ASSERT_EQ(block.size(), 364U);
  EXPECT_EQ(load_le(block, 360), block.size());
  const Bytes sent = pcapng::enhanced_packet({0, true, ""}, packet);
  EXPECT_EQ(load_le(sent, 336), 0x00040002U) << "no comment";
  EXPECT_EQ(load_le(sent, 340), 2U) << "outbound";
}

TEST(Pcapng, TextsAreBounded) {
  const std::string text(100'000, 'x');
  const Bytes section = pcapng::section_header(text, text);
  EXPECT_EQ(load_le(section, 4), section.size());
  EXPECT_LT(section.size(), 2 * 0x10000U + 100);
}

class CaptureTest : public testing::Test {
 protected:
  CaptureTest() {
    std::string name = testing::TempDir() + "captureXXXXXX";
    directory_ = ::mkdtemp(name.data()) == nullptr ? "" : name;
    end_.port = "softhca0:1";
    end_.lid = Lid(0x10);
    end_.gid = route().sgid;
    end_.pkey = PKey(0xFFFF);
    end_.qpn = Qpn(0x48);
    end_.qkey = QKey(0x0B1B0B1B);
    end_.rank = 3;
    end_.job_size = 16;
  }
  ~CaptureTest() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string pattern(const std::string& name) const {
    return directory_ + "/" + name;
  }
  [[nodiscard]] std::string file_of(const std::string& text) const {
    const auto file = capture_file(text, end_);
    return file ? *file : "refused: " + std::string(file.error().what());
  }
  static Bytes read(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  /// Sizes of the blocks, which must fill the file.
  static std::vector<std::size_t> blocks(const Bytes& file) {
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < file.size(); at += sizes.back()) {
      sizes.push_back(load_le(file, at + 4));
      EXPECT_EQ(load_le(file, at + sizes.back() - 4), sizes.back());
    }
    return sizes;
  }

  std::string directory_;
  CaptureEnd end_;
};

TEST_F(CaptureTest, EveryRankHasAFileOfItsOwn) {
  EXPECT_EQ(file_of("/tmp/a.pcapng"), "/tmp/a.pcapng.3") << "16 ranks would write to it";
  EXPECT_EQ(file_of("/tmp/%r-50%%.pcapng"), "/tmp/3-50%.pcapng");
  EXPECT_EQ(file_of("/tmp/%p"), "/tmp/" + std::to_string(::getpid()));
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  EXPECT_EQ(file_of("/tmp/%h"), "/tmp/" + std::string(host.data()) + ".3");
  end_.job_size = 1;
  EXPECT_EQ(file_of("/tmp/a.pcapng"), "/tmp/a.pcapng");
  EXPECT_THAT(file_of("/tmp/%x"), HasSubstr("refused: the capture file '/tmp/%x': use %r"));
  EXPECT_THAT(file_of("/tmp/%"), HasSubstr("refused"));
}

TEST_F(CaptureTest, WhatIsSentAndReceivedIsThereAtOnce) {
  auto capture = Capture::open(pattern("%r"), end_);
  ASSERT_TRUE(capture.has_value()) << capture.error().what();
  EXPECT_EQ(capture->file(), pattern("3"));
  struct stat status {};
  ASSERT_EQ(::stat(capture->file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U) << "private data are in it";
  const std::size_t before = read(capture->file()).size();

  Transmit transmit;
  transmit.to.dlid = Lid(0x20);
  transmit.to.qpn = Qpn(0x51);
  transmit.to.path_bits = 1;
  transmit.is_retransmit = true;
  capture->sent(transmit);
  Bytes file = read(capture->file());
  EXPECT_EQ(blocks(file).size(), 3U);
  const std::size_t packet = before + 44;
  EXPECT_EQ(load_be(file, packet + 2, 2), 0x20U);
  EXPECT_EQ(load_be(file, packet + 6, 2), 0x11U) << "the LID of the path bits";
  EXPECT_EQ(load_be(file, packet + 13, 3), 1U) << "as QP1";
  EXPECT_EQ(load_be(file, packet + 25, 3), 1U);
  EXPECT_EQ(load_be(file, packet + 20, 4), 0x0B1B0B1BU);
  const std::string text(file.begin(), file.end());
  EXPECT_THAT(text, HasSubstr("QP 0x000048 to QP 0x000051, sent again"));
  EXPECT_THAT(text, HasSubstr("rank 3 of 16"));

  Address from = transmit.to;
  from.has_grh = true;
  from.dgid = route().dgid;
  capture->received(from, Bytes(256, 0x99));
  capture->received(from, Bytes(3, 0x99));
  capture->received(from, {});
  file = read(capture->file());
  EXPECT_EQ(blocks(file).size(), 6U);
  EXPECT_EQ(capture->packets(), 4U);
  EXPECT_FALSE(capture->fault().has_value());
  const std::string more(file.begin(), file.end());
  EXPECT_THAT(more, HasSubstr("QP 0x000051 to QP 0x000048"));

  // A second run begins anew.
  const auto again = Capture::open(pattern("%r"), end_);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(read(again->file()).size(), before);
}

TEST_F(CaptureTest, AFileThatCannotBeMadeIsNamed) {
  const auto capture = Capture::open(pattern("missing/%r"), end_);
  ASSERT_FALSE(capture.has_value());
  EXPECT_TRUE(capture.error().is(Errc::InvalidArgument));
  EXPECT_THAT(std::string(capture.error().what()), HasSubstr("missing/3'"));
  EXPECT_EQ(capture.error().error_number(), ENOENT);
}

/// A file that grows no further stands for a disk that is full.
TEST_F(CaptureTest, ADiskThatIsFullEndsTheCaptureAndNothingElse) {
  end_.rank = 1;
  auto capture = Capture::open(pattern("%r"), end_);
  ASSERT_TRUE(capture.has_value());
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = read(capture->file()).size() + 500;
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  for (int i = 0; i < 5; ++i) {
    capture->received(Address{}, Bytes(256, 0));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old);
  ASSERT_TRUE(capture->fault().has_value());
  EXPECT_THAT(std::string(capture->fault()->what()), HasSubstr(capture->file()));
  EXPECT_EQ(capture->packets(), 1U);
  capture->received(Address{}, Bytes(256, 0));
  EXPECT_EQ(capture->packets(), 1U) << "half a packet may be at the end: nothing may follow";
}

}  // namespace
}  // namespace wireup::cm
