// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>

#include <variant>

#include "umad/fake_umad.hpp"
#include "umad/sa_client.hpp"

namespace wireup::umad {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeUmad;

std::vector<std::uint8_t> paths(std::size_t count) {
  std::vector<std::uint8_t> bytes(count * mad::PathRecord::kSize);
  for (std::size_t i = 0; i < count; ++i) {
    mad::PathRecord record;
    record.dlid = Lid(static_cast<std::uint16_t>(i + 1));
    record.sl = Sl(static_cast<std::uint8_t>(i % 16));
    mad::serialize(
        record,
        std::span(bytes).subspan(i * mad::PathRecord::kSize).first<mad::PathRecord::kSize>());
  }
  return bytes;
}

class SaTableTest : public testing::Test {
 protected:
  [[nodiscard]] SaClient open(std::size_t largest = 1 << 20) {
    SaClient::Options options;
    options.device = "softhca0";
    options.port = 2;
    options.sm = {Lid(0x1234), Sl(), 0};
    options.timeout = milliseconds(100);
    options.tries = 3;
    options.table_timeout = seconds(4);
    options.largest_table = largest;
    return std::move(*SaClient::open(options, FakeUmad::ops()));
  }
  [[nodiscard]] static const std::vector<mad::PathRecord>* paths_of(
      const std::optional<SaReply>& reply) {
    return reply.has_value() && reply->record.has_value()
               ? std::get_if<std::vector<mad::PathRecord>>(&*reply->record)
               : nullptr;
  }

  FakeUmad fake_;
  Instant now_{seconds(1)};
};

TEST_F(SaTableTest, AskedOnceWithTheTablesPatience) {
  SaClient client = open();
  mad::PathRecord asked;
  asked.pkey = PKey(0xFFFF);
  client.query_paths(asked, mad::path_mask::kPKey, now_);
  ASSERT_EQ(fake_.sent.size(), 1U);
  EXPECT_EQ(fake_.sent[0].bytes[3], 0x12);
  EXPECT_EQ(fake_.sent[0].bytes[17], 0x35);
  EXPECT_EQ(fake_.sent[0].timeout_ms, 4000);
  now_ += seconds(4);
  fake_.time_out(0);
  client.progress(now_);
  EXPECT_EQ(fake_.sent.size(), 1U);
  const auto reply = client.poll_reply();
  ASSERT_TRUE(reply.has_value());
  ASSERT_FALSE(reply->record.has_value());
  EXPECT_TRUE(reply->record.error().is(Errc::Timeout));
}

TEST_F(SaTableTest, TablesOfAnyLength) {
  for (const std::size_t count : {0U, 1U, 3U, 4U, 1000U}) {
    SaClient client = open();
    fake_.sent.clear();
    client.query_paths({}, mad::path_mask::kPKey, now_);
    fake_.answer_table(0, 0, mad::PathRecord::kSize, paths(count));
    client.progress(now_);
    const auto reply = client.poll_reply();
    const auto* records = paths_of(reply);
    ASSERT_NE(records, nullptr) << count;
    ASSERT_EQ(records->size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ((*records)[i].dlid, Lid(static_cast<std::uint16_t>(i + 1)));
    }
  }
}

TEST_F(SaTableTest, WhatFollowsALongAnswerIsReadToo) {
  SaClient client = open();
  const SaRequestId table = client.query_paths({}, mad::path_mask::kPKey, now_);
  const SaRequestId single = client.query_path({}, mad::path_mask::kPKey, now_);
  fake_.answer_table(0, 0, mad::PathRecord::kSize, paths(100));
  fake_.answer(1, 0, nullptr);
  client.progress(now_);
  const auto first = client.poll_reply();
  const auto second = client.poll_reply();
  ASSERT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(first->id, table);
  EXPECT_EQ(second->id, single);
  EXPECT_EQ(fake_.short_reads, 1);
}

TEST_F(SaTableTest, ALongerOneThanTheLimitIsThrownAwayAndNamed) {
  SaClient client = open(1000);
  client.query_paths({}, mad::path_mask::kPKey, now_);
  fake_.answer_table(0, 0, mad::PathRecord::kSize, paths(100));
  client.progress(now_);
  EXPECT_TRUE(fake_.waiting.empty()) << "it blocks what comes after it";
  const auto reply = client.poll_reply();
  ASSERT_TRUE(reply.has_value());
  ASSERT_FALSE(reply->record.has_value());
  EXPECT_TRUE(reply->record.error().is(Errc::NoResources)) << reply->record.error().what();
  EXPECT_NE(reply->record.error().what().find("1000"), std::string_view::npos);
}

TEST_F(SaTableTest, AStrideThatLiesIsNoTable) {
  SaClient client = open();
  client.query_paths({}, mad::path_mask::kPKey, now_);
  fake_.answer_table(0, 0, 8, paths(3));
  client.progress(now_);
  const auto reply = client.poll_reply();
  ASSERT_TRUE(reply.has_value());
  ASSERT_FALSE(reply->record.has_value());
  EXPECT_TRUE(reply->record.error().is(Errc::Malformed));
}

TEST_F(SaTableTest, ASingleAnswerIsNoTableAndTheOtherWayRound) {
  SaClient client = open();
  client.query_paths({}, mad::path_mask::kPKey, now_);
  client.query_path({}, mad::path_mask::kPKey, now_);
  fake_.answer(0, 0, nullptr);
  fake_.answer_table(1, 0, 64, paths(1));
  client.progress(now_);
  EXPECT_FALSE(client.poll_reply().has_value());
  EXPECT_EQ(client.pending(), 2U);
}

TEST_F(SaTableTest, NodesAndServices) {
  SaClient client = open();
  mad::NodeRecord node;
  node.description[0] = 'H';
  client.query_nodes(node, mad::node_mask::kDescription, now_);
  EXPECT_EQ(fake_.sent[0].bytes[17], 0x11);
  std::vector<std::uint8_t> nodes(112);
  mad::serialize(node, std::span(nodes).first<mad::NodeRecord::kSize>());
  fake_.answer_table(0, 0, 112, nodes);
  client.query_services({}, mad::service_mask::kName, now_);
  EXPECT_EQ(fake_.sent[1].bytes[17], 0x31);
  std::vector<std::uint8_t> services(2 * mad::ServiceRecord::kSize);
  fake_.answer_table(1, 0, mad::ServiceRecord::kSize, services);
  client.progress(now_);
  const auto first = client.poll_reply();
  ASSERT_TRUE(first.has_value() && first->record.has_value());
  EXPECT_EQ(std::get<std::vector<mad::NodeRecord>>(*first->record),
            std::vector<mad::NodeRecord>{node});
  const auto second = client.poll_reply();
  ASSERT_TRUE(second.has_value() && second->record.has_value());
  EXPECT_EQ(std::get<std::vector<mad::ServiceRecord>>(*second->record).size(), 2U);
}

TEST_F(SaTableTest, BusyIsToldApartFromSilence) {
  SaClient client = open();
  client.query_path({}, mad::path_mask::kPKey, now_, 1);
  fake_.answer(0, 0x0001, nullptr);
  client.progress(now_);
  const auto once = client.poll_reply();
  ASSERT_TRUE(once.has_value());
  EXPECT_TRUE(once->record.error().is(Errc::Busy)) << once->record.error().what();
  EXPECT_EQ(fake_.sent.size(), 1U);
  // Of several tries the last one counts.
  client.query_path({}, mad::path_mask::kPKey, now_, 2);
  fake_.answer(1, 0x0001, nullptr);
  client.progress(now_);
  now_ = *client.poll_timeout();
  client.progress(now_);
  ASSERT_EQ(fake_.sent.size(), 3U);
  fake_.time_out(2);
  client.progress(now_);
  const auto twice = client.poll_reply();
  ASSERT_TRUE(twice.has_value());
  EXPECT_TRUE(twice->record.error().is(Errc::Timeout)) << twice->record.error().what();
}

}  // namespace
}  // namespace wireup::umad
