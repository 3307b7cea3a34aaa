// SPDX-License-Identifier: BSD-3-Clause
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "acm/client_rig.hpp"

// What one user may have of the clients' socket. All clients here are of one user; that others have
// bounds of their own is UserShares' test, and that of tests/acm/test_node_users.py.
namespace wireup::acm {
namespace {

using test::answer;
using test::question;
using test::Socket;

class ClientLimitsTest : public test::ClientServerTest {
 protected:
  [[nodiscard]] std::vector<ClientServer::Request> poll_all() {
    settle();
    std::vector<ClientServer::Request> requests;
    while (const auto request = server().poll_request()) {
      requests.push_back(*request);
    }
    return requests;
  }
  /// At most so many requests of each user at a time.
  void start_serving(std::size_t each_user) {
    ClientServerLimits limits;
    limits.max_served_each_user = each_user;
    start(limits);
  }
  void reply(const ClientServer::Request& request) {
    server().reply(request.client, answer(request.request));
    settle();
  }
};

TEST_F(ClientLimitsTest, OneClientTooManyIsDisconnectedAtOnce) {
  ClientServerLimits limits;
  limits.max_clients_each_user = 2;
  start(limits);
  Socket one(path());
  Socket two(path());
  Socket three(path());
  settle();
  EXPECT_TRUE(three.is_at_end());
  EXPECT_EQ(server().clients(), 2U);
  EXPECT_EQ(server().counters().turned_away, 1U);
  two.close();
  settle();
  Socket four(path());
  four.ask(4);
  EXPECT_EQ(serve(), 1U);
  EXPECT_TRUE(four.has_answer_to(4));
}

TEST_F(ClientLimitsTest, RequestsBeyondTheBoundWaitTheirTurn) {
  start_serving(2);
  std::vector<std::unique_ptr<Socket>> clients;
  for (std::uint64_t tid = 1; tid <= 5; ++tid) {
    clients.push_back(std::make_unique<Socket>(path()));
    clients.back()->ask(tid);
  }
  auto served = poll_all();
  ASSERT_EQ(served.size(), 2U);
  std::size_t answered = 0;
  while (!served.empty()) {
    reply(served.front());
    ++answered;
    served.erase(served.begin());
    for (const auto& next : poll_all()) {
      served.push_back(next);
    }
    EXPECT_LE(served.size(), 2U);
  }
  EXPECT_EQ(answered, 5U);
  for (std::uint64_t tid = 1; tid <= 5; ++tid) {
    EXPECT_TRUE(clients[tid - 1]->has_answer_to(tid)) << tid;
  }
}

TEST_F(ClientLimitsTest, WhoAsksAgainWaitsBehindTheOthers) {
  start_serving(1);
  Socket greedy(path());
  for (std::uint64_t tid = 1; tid <= 3; ++tid) {
    greedy.ask(tid);
  }
  settle();
  Socket modest(path());
  modest.ask(9);
  std::vector<std::uint64_t> order;
  for (auto served = poll_all(); !served.empty(); served = poll_all()) {
    ASSERT_EQ(served.size(), 1U);
    order.push_back(served.front().request.tid.value());
    reply(served.front());
  }
  ASSERT_EQ(order.size(), 4U);
  EXPECT_EQ(order[0], 1U);
  EXPECT_EQ(order[1], 9U);
}

TEST_F(ClientLimitsTest, ARequestCountsUntilItsReplyAlthoughItsClientHasGone) {
  start_serving(1);
  Socket impatient(path());
  impatient.ask(1);
  const auto asked = poll_all();
  ASSERT_EQ(asked.size(), 1U);
  impatient.close();
  Socket next(path());
  next.ask(2);
  EXPECT_TRUE(poll_all().empty());
  reply(asked.front());
  const auto then = poll_all();
  ASSERT_EQ(then.size(), 1U);
  EXPECT_EQ(then.front().request, question(2));
}

TEST_F(ClientLimitsTest, WhoGoesWhileItWaitsIsPassedOver) {
  start_serving(1);
  Socket one(path());
  one.ask(1);
  const auto first = poll_all();
  ASSERT_EQ(first.size(), 1U);
  Socket two(path());
  two.ask(2);
  settle();
  Socket three(path());
  three.ask(3);
  settle();
  two.close();
  reply(first.front());
  const auto then = poll_all();
  ASSERT_EQ(then.size(), 1U);
  EXPECT_EQ(then.front().request, question(3));
}

TEST_F(ClientLimitsTest, ARequestThatNobodyPolledEndsWithItsClient) {
  start_serving(1);
  Socket one(path());
  one.ask(1);
  settle();
  one.close();
  settle();
  Socket two(path());
  two.ask(2);
  settle();
  // The first one's is thrown away by the poll, which gives its place to the second.
  auto served = poll_all();
  if (served.empty()) {
    served = poll_all();
  }
  ASSERT_EQ(served.size(), 1U);
  EXPECT_EQ(served.front().request, question(2));
}

}  // namespace
}  // namespace wireup::acm
