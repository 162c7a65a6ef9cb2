import { describe, expect, it } from 'vitest';
import { PodSignals } from '../../../../src/adapter/http/pod-signals.js';
import { addressMark, connectionMark } from '../../../../src/propagation/not-begun.js';

const socket = (localPort: number) => ({ remoteAddress: '10.0.0.1', remotePort: 80, localPort });
const signals = (...sockets: readonly object[]): PodSignals => new PodSignals(() => sockets);

describe('a pod that says it has not begun a request', () => {
  it('is believed with the mark of any connection to it, as often as it says so', () => {
    const pod = signals(socket(40_000), socket(40_001));
    expect(pod.hasNotBegun(connectionMark('10.0.0.1', 80, 40_001))).toBe(true);
    expect(pod.hasNotBegun(connectionMark('::ffff:10.0.0.1', 80, 40_000))).toBe(true);
  });

  it.each([
    ['the address of the pod alone', addressMark('10.0.0.1', 80)],
    ['the connection between pod and server', connectionMark('10.0.0.1', 80, 50_000)],
    ['its own connection', connectionMark('10.0.0.2', 80, 40_000)],
    ['a list of marks', `${connectionMark('10.0.0.1', 80, 40_000)}, ${connectionMark('10.0.0.1', 80, 40_001)}`],
  ])('is not believed with what a server behind it can know: %s', (_what, mark) => {
    expect(signals(socket(40_000)).hasNotBegun(mark)).toBe(false);
  });

  it('is not believed again after a wrong mark, so that a server behind it cannot try one port after the other', () => {
    const pod = signals(socket(40_000));
    expect(pod.hasNotBegun(connectionMark('10.0.0.1', 80, 40_001))).toBe(false);
    expect(pod.hasNotBegun(connectionMark('10.0.0.1', 80, 40_000))).toBe(false);
  });

  it('stays believed after a response without a mark, and while other sockets connect or close', () => {
    const pod = signals({}, socket(40_000));
    expect(pod.hasNotBegun(undefined)).toBe(false);
    expect(pod.hasNotBegun(connectionMark('10.0.0.1', 80, 40_000))).toBe(true);
  });
});
