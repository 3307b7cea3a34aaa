// SPDX-License-Identifier: BSD-3-Clause
#include "acm/server/client_server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "acm/client_rig.hpp"

namespace wireup::acm {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::answer;
using test::Bytes;
using test::ClientServerTest;
using test::question;
using test::Socket;

TEST_F(ClientServerTest, AsksAndAnswers) {
  start();
  Socket client(path());
  client.ask(7);
  settle();
  const auto request = server().poll_request();
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->request, question(7));
  EXPECT_EQ(request->peer.uid, geteuid());
  EXPECT_EQ(request->peer.pid, getpid());
  EXPECT_FALSE(server().poll_request().has_value());
  server().reply(request->client, answer(request->request));
  EXPECT_TRUE(client.has_answer_to(7));
  client.ask(8);
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(client.has_answer_to(8));
  EXPECT_EQ(server().counters().accepted, 1U);
  EXPECT_EQ(server().counters().requests, 2U);
  EXPECT_EQ(server().counters().expelled, 0U);
}

TEST_F(ClientServerTest, ARequestInPieces) {
  start();
  Socket client(path());
  const Bytes bytes = encode_client_request(question(7));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    settle();
    ASSERT_FALSE(server().poll_request().has_value()) << i;
    ASSERT_EQ(client.write(std::span(bytes).subspan(i, 1)), 1U);
  }
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(client.has_answer_to(7));
}

TEST_F(ClientServerTest, RequestsAtOnceAreAnsweredInTheirOrder) {
  start();
  Socket client(path());
  Bytes all;
  Bytes expected;
  constexpr std::uint64_t kRequests = 40;
  for (std::uint64_t tid = 1; tid <= kRequests; ++tid) {
    const Bytes one = encode_client_request(question(tid));
    all.insert(all.end(), one.begin(), one.end());
    const Bytes reply = encode_client_reply(answer(question(tid)));
    expected.insert(expected.end(), reply.begin(), reply.end());
  }
  const std::size_t half = all.size() - 50;
  ASSERT_EQ(client.write(std::span(all).first(half)), half);
  settle();
  const auto first = server().poll_request();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->request.tid, Tid(1));
  EXPECT_FALSE(server().poll_request().has_value()) << "one at a time";
  server().reply(first->client, answer(first->request));
  EXPECT_EQ(serve(), kRequests - 2);
  ASSERT_EQ(client.write(std::span(all).subspan(half)), 50U);
  EXPECT_EQ(serve(), 1U);
  EXPECT_EQ(client.read(), expected);
}

TEST_F(ClientServerTest, EightEntriesWithoutASourceAreAQuestion) {
  start();
  Socket client(path());
  Bytes bytes(kMaxClientRequest);
  const Bytes one = encode_client_request(question(7));
  std::copy(one.begin(), one.end(), bytes.begin());
  const std::uint16_t size = kMaxClientRequest;
  std::memcpy(bytes.data() + 6, &size, 2);
  for (std::size_t i = 1; i < kMaxClientEntries; ++i) {
    bytes[16 + 72 * i + 4] = bytes[16 + 4];
    bytes[16 + 72 * i + 5] = bytes[16 + 5];
  }
  ASSERT_EQ(client.write(bytes), bytes.size());
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(client.has_answer_to(7));
}

TEST_F(ClientServerTest, WhatCannotBeAnsweredIsRefusedAndTheClientStays) {
  start();
  Socket client(path());
  Bytes bytes = encode_client_request(question(7));
  bytes[16 + 4] = bytes[16 + 5] = 0x77;
  // Many at once: a refusal must not need anybody else's help to go on.
  Bytes many;
  for (int i = 0; i < 100; ++i) {
    many.insert(many.end(), bytes.begin(), bytes.end());
  }
  ASSERT_EQ(client.write(many), many.size());
  EXPECT_EQ(serve(), 0U);
  EXPECT_EQ(server().counters().refused, 100U);
  const Bytes replies = client.read();
  ASSERT_EQ(replies.size(), 1600U);
  const auto reply = decode_client_reply(std::span(replies).first(16));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, ClientStatus::DestinationType);
  EXPECT_EQ(reply->tid, Tid(7));
  client.ask(8);
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(client.has_answer_to(8));
}

TEST_F(ClientServerTest, BrokenFramesDisconnectThatClientOnly) {
  start();
  Socket good(path());
  const Bytes header = encode_client_request(question(7));
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes bytes = header;
    bytes[at] = value;
    return bytes;
  };
  std::vector<Bytes> broken{with(0, 0), with(0, 2), with(1, 0), with(1, 4), with(1, 0x81)};
  for (const int length : {0, 15, 17, 87, 593, 664, 65535}) {
    const auto size = static_cast<std::uint16_t>(length);
    Bytes bytes = header;
    std::memcpy(bytes.data() + 6, &size, 2);
    broken.push_back(bytes);
  }
  broken.emplace_back(5000, std::uint8_t{0xFF});
  std::uint64_t tid = 100;
  for (const Bytes& bytes : broken) {
    Socket bad(path());
    bad.write(bytes);
    good.ask(++tid);
    EXPECT_EQ(serve(), 1U);
    EXPECT_TRUE(good.has_answer_to(tid));
    EXPECT_NE(why_gone(), "");
    EXPECT_EQ(server().clients(), 1U);
    EXPECT_TRUE(bad.read().empty());
  }
  EXPECT_EQ(server().counters().expelled, broken.size());
}

TEST_F(ClientServerTest, AClientThatOnlyReceivesStillGetsItsAnswers) {
  start();
  Socket client(path());
  client.ask(7);
  client.ask(8);
  client.end_sending();
  EXPECT_EQ(serve(), 2U);
  Bytes expected = encode_client_reply(answer(question(7)));
  const Bytes second = encode_client_reply(answer(question(8)));
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(client.read(), expected);
  EXPECT_TRUE(client.is_at_end());
  EXPECT_EQ(why_gone(), "");
}

TEST_F(ClientServerTest, AClientThatEndsInARequestIsGone) {
  start();
  Socket client(path());
  const Bytes bytes = encode_client_request(question(7));
  client.write(std::span(bytes).first(20));
  settle();
  client.end_sending();
  EXPECT_EQ(serve(), 0U);
  EXPECT_NE(why_gone().find("20 bytes"), std::string::npos);
  EXPECT_TRUE(client.is_at_end());
  EXPECT_FALSE(server().poll_timeout().has_value());
}

TEST_F(ClientServerTest, AClientThatGoesWhileItIsServed) {
  start();
  Socket client(path());
  client.ask(7);
  settle();
  const auto request = server().poll_request();
  ASSERT_TRUE(request.has_value());
  client.close();
  settle();
  EXPECT_EQ(why_gone(), "");
  server().reply(request->client, answer(request->request));
  EXPECT_EQ(server().clients(), 0U);

  Socket other(path());
  other.ask(8);
  settle();
  other.close();
  settle();
  EXPECT_FALSE(server().poll_request().has_value()) << "nobody waits for the answer";
}

TEST_F(ClientServerTest, SilenceIsAllowedExceptWithinARequest) {
  start();
  Socket silent(path());
  Socket half(path());
  Socket trickling(path());
  const Bytes bytes = encode_client_request(question(7));
  settle();
  EXPECT_FALSE(server().poll_timeout().has_value());
  half.write(std::span(bytes).first(1));
  settle();
  ASSERT_TRUE(server().poll_timeout().has_value());
  EXPECT_EQ(*server().poll_timeout(), now_ + ClientServerLimits{}.half_request);
  // A byte now and then does not buy time.
  for (std::size_t i = 0; i < 5; ++i) {
    trickling.write(std::span(bytes).subspan(i, 1));
    settle();
    advance(seconds(2) + milliseconds(1));
  }
  EXPECT_EQ(server().clients(), 1U);
  EXPECT_TRUE(half.is_at_end());
  EXPECT_TRUE(trickling.is_at_end());
  EXPECT_EQ(server().counters().expelled, 2U);
  EXPECT_FALSE(server().poll_timeout().has_value());
  advance(hours(100));
  silent.ask(9);
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(silent.has_answer_to(9));
}

TEST_F(ClientServerTest, TimeOfTheServiceIsNotTimeOfTheClient) {
  start();
  Socket client(path());
  Bytes bytes = encode_client_request(question(7));
  const std::size_t one = bytes.size();
  bytes.resize(one + 20);
  std::copy_n(bytes.begin(), 20, bytes.begin() + static_cast<std::ptrdiff_t>(one));
  ASSERT_EQ(client.write(bytes), bytes.size());
  settle();
  const auto request = server().poll_request();
  ASSERT_TRUE(request.has_value());
  advance(hours(1));
  server().reply(request->client, answer(request->request));
  EXPECT_TRUE(client.has_answer_to(7));
  ASSERT_TRUE(server().poll_timeout().has_value());
  EXPECT_EQ(*server().poll_timeout(), now_ + ClientServerLimits{}.half_request);
  advance(ClientServerLimits{}.half_request);
  EXPECT_EQ(server().clients(), 0U);
}

// Replies of 64 KiB that nobody takes: the server keeps one of them, and serves the others.
TEST_F(ClientServerTest, AClientThatTakesNoAnswersHoldsOneOfThem) {
  start();
  Socket lazy(path());
  Socket good(path());
  EndpointReply body;
  body.addresses.assign(EndpointReply::kMaxAddresses, "10.77.0.1");
  Bytes requests;
  std::vector<Bytes> expected;
  for (std::uint64_t tid = 1; tid <= 100; ++tid) {
    const Bytes one = encode_client_request(
        ClientRequest{ClientOp::EndpointQuery, Tid(tid), EndpointQuery{1, 0}});
    requests.insert(requests.end(), one.begin(), one.end());
    expected.push_back(encode_client_reply(
        ClientReply{ClientOp::EndpointQuery, Tid(tid), ClientStatus::Success, body}));
  }
  ASSERT_EQ(lazy.write(requests), requests.size());
  const auto serve_endpoints = [&] {
    std::size_t count = 0;
    settle();
    while (const auto request = server().poll_request()) {
      server().reply(request->client, ClientReply{request->request.op, request->request.tid,
                                                  ClientStatus::Success, body});
      ++count;
      settle();
    }
    return count;
  };
  const std::size_t taken = serve_endpoints();
  EXPECT_LT(taken, 100U) << "a socket that takes 6.5 MB; the test needs more requests";
  good.ask(7);
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(good.has_answer_to(7));

  Bytes received;
  std::size_t served = taken;
  for (int turn = 0; turn < 10000 && received.size() < 100 * expected[0].size(); ++turn) {
    const Bytes more = lazy.read();
    received.insert(received.end(), more.begin(), more.end());
    served += serve_endpoints();
  }
  EXPECT_EQ(served, 100U);
  ASSERT_EQ(received.size(), 100 * expected[0].size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto at = received.begin() + static_cast<std::ptrdiff_t>(i * expected[0].size());
    ASSERT_TRUE(std::equal(expected[i].begin(), expected[i].end(), at)) << i;
  }
}

TEST_F(ClientServerTest, AThousandClientsAtOnce) {
  constexpr std::uint64_t kClients = 1000;
  const auto limit = raise_descriptor_limit();
  ASSERT_TRUE(limit.has_value()) << limit.error().what();
  ASSERT_GE(*limit, 2 * kClients + 100) << "raise the hard limit: ulimit -Hn";
  start();
  std::vector<Socket> clients;
  clients.reserve(kClients);
  for (std::uint64_t i = 0; i < kClients; ++i) {
    clients.emplace_back(path());
  }
  settle();
  EXPECT_EQ(server().clients(), kClients);
  for (std::uint64_t round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < kClients; ++i) {
      clients[i].ask(i + 1);
    }
    // All of them wait before the first is answered.
    settle();
    std::vector<ClientServer::Request> waiting;
    while (auto request = server().poll_request()) {
      waiting.push_back(*request);
    }
    ASSERT_EQ(waiting.size(), kClients);
    for (const auto& request : waiting) {
      server().reply(request.client, answer(request.request));
    }
    for (std::uint64_t i = 0; i < kClients; ++i) {
      ASSERT_TRUE(clients[i].has_answer_to(i + 1)) << i;
    }
  }
  clients.clear();
  settle();
  EXPECT_EQ(server().clients(), 0U);
}

TEST_F(ClientServerTest, MoreClientsThanThereIsRoomForWait) {
  ClientServerLimits limits;
  limits.max_clients = 2;
  start(limits);
  Socket first(path());
  Socket second(path());
  Socket third(path());
  third.ask(3);
  EXPECT_EQ(serve(), 0U);
  EXPECT_EQ(server().clients(), 2U);
  first.close();
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(third.has_answer_to(3));
  EXPECT_EQ(server().clients(), 2U);
}

TEST_F(ClientServerTest, WithoutDescriptorsClientsWait) {
  start();
  Socket client(path());
  client.ask(7);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  // The lowest free number is where the next one would go.
  const int next = dup(server().fd());
  ASSERT_GE(next, 0);
  close(next);
  rlimit tight = usual;
  tight.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  // poll() counts descriptors against the limit too, so no settle() here.
  server().progress(now_);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  settle();
  EXPECT_EQ(server().clients(), 0U);
  ASSERT_TRUE(server().poll_timeout().has_value()) << "it has to look again by itself";
  now_ = *server().poll_timeout();
  server().progress(now_);
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(client.has_answer_to(7));
  EXPECT_FALSE(server().poll_timeout().has_value());
}

}  // namespace
}  // namespace wireup::acm
