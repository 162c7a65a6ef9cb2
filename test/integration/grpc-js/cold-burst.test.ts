import { staticEndpoints } from 'evenkeel';
import { expect, it } from 'vitest';
import { ordersClient, say } from './support/client.js';
import { Pods } from './support/pods.js';
import { tally } from './support/spread.js';

const ROUNDS = 5;
const CALLS = 300;

it('a burst of calls on a new channel does not all go to the pod that connects first', async () => {
  await using pods = new Pods();
  await pods.start(3);
  const largest: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const { client } = ordersClient({
      resolver: staticEndpoints(pods.endpoints),
      // Connections of its own: those of the last round are still there.
      'grpc.use_local_subchannel_pool': 1,
    });
    const answers = await Promise.all(Array.from({ length: CALLS }, () => say(client)));
    client.close();
    largest.push(Math.max(...tally(answers.map(({ pod }) => pod)).values()) / CALLS);
  }
  // An even share is a third. On a machine that is busy a pod may be connected later than a burst waits for it.
  const mean = largest.reduce((sum, share) => sum + share) / ROUNDS;
  expect(mean).toBeLessThan(0.7);
});
