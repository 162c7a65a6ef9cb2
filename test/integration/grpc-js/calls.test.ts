import { roundRobin, staticEndpoints } from 'evenkeel';
import { channelOptions, target } from 'evenkeel/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { all, echoClient, maxToMean, say } from './support/client.js';
import { type Pod, Pods } from './support/pods.js';

describe('calls of every kind', () => {
  const pods = new Pods();
  let started: Pod[];
  beforeAll(async () => {
    started = await pods.start(4);
  });
  afterAll(() => pods.stop());
  const resolver = () => staticEndpoints(started.map(({ port }) => ({ address: '127.0.0.1', port })));

  it('spreads unary calls evenly', async () => {
    const client = echoClient(
      target('orders.shop:50051'),
      channelOptions({ resolver: resolver(), picker: roundRobin() }),
    );
    const names: string[] = [];
    for (let i = 0; i < 50; i++) {
      const answers = await Promise.all(Array.from({ length: 8 }, () => say(client)));
      names.push(...answers.map(({ pod }) => pod));
    }
    expect(maxToMean(names, 4)).toBeLessThanOrEqual(1.01);
    const streamed = await Promise.all(Array.from({ length: 40 }, () => all(client.count({ numbers: 5 }))));
    expect(
      maxToMean(
        streamed.map(([first]) => first!.pod),
        4,
      ),
    ).toBeLessThanOrEqual(1.01);
    client.close();
  });
});
