import { describe, expect, it } from 'vitest';
import { ResolveError } from '../../../../src/errors.js';
import { Beat } from '../../../../src/resolver/kubernetes/beat.js';
import { FakeClock } from '../../../../src/testing/fake-clock.js';
import { type Member, Pod } from './shared-members.js';

async function startPod(size = 4): Promise<Pod & { readonly all: readonly Member[] }> {
  const pod = new Pod();
  const all = Array.from({ length: size }, () => pod.add());
  await pod.pass(100);
  return Object.assign(pod, { all });
}

const agree = (pod: Pod): void => {
  for (const text of pod.sets) expect(text).toBe(pod.truth.text);
};

describe('members that share a watch', () => {
  it('one lists and watches; all have the whole set, and each change', async () => {
    const pod = await startPod(8);
    expect(pod.roles).toBe('own shared shared shared shared shared shared shared');
    expect([pod.truth.lists, pod.truth.watches]).toEqual([1, 1]);
    agree(pod);
    pod.truth.put('s2', '10.0.0.2');
    pod.truth.put('s1', '10.0.0.9');
    pod.truth.delete('s2');
    await pod.pass(5);
    agree(pod);
    expect(pod.all[7]?.told).toEqual(['list s1', 'change s1 -s2']);
  });

  it('one that comes later has the set at once', async () => {
    const pod = await startPod(2);
    pod.truth.put('s2', '10.0.0.2');
    const late = pod.add();
    await pod.pass(10);
    expect(late.text).toBe(pod.truth.text);
    expect(pod.truth.lists).toBe(1);
  });

  it('the leader leaves: the next one goes on from its version, without a list, and nobody is told anything', async () => {
    const pod = await startPod();
    const before = pod.all.map(({ told }) => told.length);
    pod.all[0]?.leave();
    pod.truth.put('s2', '10.0.0.2');
    await pod.pass(200);
    expect(pod.roles).toBe('dead own shared shared');
    expect(pod.truth.lists).toBe(1);
    agree(pod);
    expect(pod.all[3]?.told.slice(before[3])).toEqual(['change s1 s2 -']);
  });

  it('the leader dies without a word: replaced within 7 s, and what happened meanwhile is not lost', async () => {
    const pod = await startPod();
    pod.kill(pod.all[0] as Member);
    pod.truth.put('s2', '10.0.0.2');
    pod.truth.delete('s1');
    await pod.pass(7_000);
    expect(pod.roles).toBe('dead own shared shared');
    agree(pod);
    expect(pod.truth.lists).toBe(1);
  });

  it('the first in line is dead as well: the one after it', async () => {
    const pod = await startPod();
    pod.kill(pod.all[0] as Member);
    (pod.all[1] as Member).paused = [];
    pod.truth.put('s2', '10.0.0.2');
    await pod.pass(9_000);
    expect(pod.all[2]?.watch.watch).toBe('own');
    expect(pod.all[3]?.text).toBe(pod.truth.text);
  });

  it('a leader that was paused and wakes up finds that another one leads, and follows it', async () => {
    const pod = await startPod();
    const first = pod.all[0] as Member;
    first.paused = [];
    await pod.pass(8_000);
    expect(pod.all[1]?.watch.watch).toBe('own');
    pod.truth.put('s2', '10.0.0.2');
    await pod.pass(100);
    first.wake();
    pod.truth.put('s3', '10.0.0.3');
    await pod.pass(3_000);
    expect(pod.roles).toBe('shared own shared shared');
    expect(pod.truth.watches).toBe(1);
    agree(pod);
  });

  it('two that lead find out, and one remains', async () => {
    const pod = new Pod();
    pod.isSilent = true;
    pod.add();
    pod.add();
    await pod.pass(2_000);
    expect(pod.roles).toBe('own own');
    expect(pod.truth.lists).toBe(2);
    // The primary answers after all.
    pod.isSilent = false;
    pod.rejoin();
    await pod.pass(3_000);
    expect(pod.roles).toBe('own shared');
    expect(pod.truth.watches).toBe(1);
    agree(pod);
  });

  it('a primary that never answers: each watches by itself after a second, and says so once', async () => {
    const pod = new Pod();
    pod.isSilent = true;
    const member = pod.add();
    await pod.pass(999);
    expect(pod.truth.lists).toBe(0);
    await pod.pass(100);
    expect(member.text).toBe(pod.truth.text);
    await pod.pass(60_000);
    expect(member.warnings).toEqual([expect.stringContaining('import evenkeel in the primary')]);
  });

  it('messages stop: everyone watches by itself in the end, each from the version it has', async () => {
    const pod = await startPod(4);
    pod.isSilent = true;
    pod.truth.put('s2', '10.0.0.2');
    await pod.pass(10_000);
    expect(pod.roles).toBe('own own own own');
    expect(pod.truth.lists).toBe(1);
    agree(pod);
    pod.isSilent = false;
    pod.truth.put('s3', '10.0.0.3');
    await pod.pass(5_000);
    expect(pod.truth.watches).toBe(1);
    agree(pod);
  });

  it('a blocked primary holds messages back for less than that: nothing changes', async () => {
    const pod = await startPod(3);
    const held = pod.all.map((member) => {
      member.paused = [];
      return member;
    });
    await pod.pass(4_500);
    pod.truth.put('s2', '10.0.0.2');
    for (const member of held) member.wake();
    await pod.pass(100);
    expect(pod.roles).toBe('own shared shared');
    agree(pod);
  });

  it('a change that got lost is noticed, and the whole state asked for', async () => {
    const pod = await startPod(3);
    let lost = 0;
    pod.loses = (_from, to, { kind }) => to === 2 && kind === 'change' && lost++ === 0;
    pod.truth.put('s2', '10.0.0.2');
    await pod.pass(10);
    expect(pod.all[1]?.text).not.toBe(pod.truth.text);
    await pod.pass(1_100);
    agree(pod);
    expect(pod.truth.lists).toBe(1);
  });

  it('half of all messages get lost: everyone has the truth soon after', async () => {
    const pod = await startPod(5);
    let turn = 0;
    pod.loses = () => (turn++ * 7919) % 13 < 6;
    for (let round = 0; round < 200; round++) {
      pod.truth.put(`s${round % 7}`, `10.0.${round % 5}.${1 + (round % 250)}`);
      if (round % 3 === 0) pod.truth.delete(`s${(round + 3) % 7}`);
      await pod.pass(137);
    }
    pod.loses = () => false;
    await pod.pass(8_000);
    agree(pod);
    expect(pod.truth.watches).toBe(1);
  });

  it('the failure of the leader’s watch is everyone’s, and so is its end; the last set stays', async () => {
    const pod = await startPod(3);
    const [leader, follower] = pod.all as [Member, Member];
    const error = new ResolveError('forbidden by the test', { code: 'EVENKEEL_FORBIDDEN', permanent: true });
    leader.failed(error);
    leader.watch.judged();
    await pod.pass(10);
    expect(follower.failure).toMatchObject({ code: 'EVENKEEL_FORBIDDEN', permanent: true, message: error.message });
    agree(pod);
    // What is forbidden to one is forbidden to all: nobody else tries.
    await pod.pass(120_000);
    expect(pod.roles).toBe('own shared shared');
    leader.confirmed();
    leader.watch.judged();
    await pod.pass(10);
    expect(follower.told).toEqual(['list s1', `fail EVENKEEL_FORBIDDEN ${error.message}`, 'fresh']);
  });

  it('a leader that cannot reach the API server any more is replaced by one that can, however many cannot', async () => {
    const pod = await startPod(4);
    for (const member of pod.all.slice(0, 2)) member.isCutOff = true;
    const [leader] = pod.all as [Member];
    leader.stop();
    leader.start();
    leader.failed(new ResolveError('no file descriptors'));
    leader.watch.judged();
    pod.truth.put('s2', '10.0.0.2');
    await pod.pass(90_000);
    expect(pod.truth.watches).toBe(1);
    agree(pod);
    for (const member of pod.all) expect(member.failure).toBeUndefined();
  });

  it('a leader that is well does not give way to one that has nothing', async () => {
    const pod = await startPod(2);
    const [leader] = pod.all as [Member];
    const claim = { protocol: 1, term: 7, seq: 0, kind: 'lead', isSynced: false };
    leader.watch.heard(9, claim);
    leader.watch.heard(9, {
      ...claim,
      term: 9,
      isSynced: true,
      failure: { message: 'no', code: '', permanent: false },
    });
    await pod.pass(10);
    expect(pod.roles).toBe('own shared');
    pod.truth.put('s2', '10.0.0.2');
    await pod.pass(1_100);
    agree(pod);
    expect(pod.truth.lists).toBe(1);
  });

  it('an API server that is away for all: one of them asks, not all', async () => {
    const pod = new Pod();
    pod.truth.isUp = false;
    for (let index = 0; index < 4; index++) pod.add();
    await pod.pass(300_000);
    expect(pod.members.filter(({ failure }) => failure === undefined)).toEqual([]);
    pod.truth.isUp = true;
    await pod.pass(5_000);
    agree(pod);
    await pod.pass(40_000);
    expect(pod.truth.watches).toBe(1);
    for (const member of pod.members) expect(member.failure).toBeUndefined();
  });

  it('an older state is not taken over: state never goes back in time', async () => {
    const pod = await startPod(2);
    const [, follower] = pod.all as [Member, Member];
    const old = { protocol: 1, term: 9, seq: 1, version: '5', kind: 'state', part: 0, parts: 1, slices: [] };
    follower.watch.heard(1, old);
    expect(follower.text).toBe(pod.truth.text);
  });

  it('what is no message of ours, or of another version, changes nothing', async () => {
    const pod = await startPod(2);
    const [leader, follower] = pod.all as [Member, Member];
    const state = { protocol: 1, term: 99, seq: 99, version: '99', kind: 'state', part: 0, parts: 1, slices: [] };
    const bad = [
      undefined,
      null,
      'state',
      [],
      { kind: 'state' },
      { ...state, protocol: 2 },
      { ...state, term: -1 },
      { ...state, term: '99' },
      { ...state, slices: undefined },
      { ...state, slices: [{}] },
      { ...state, slices: [{ name: 's9', version: '1', family: 'IPv4', ports: [], members: [{}], malformed: [] }] },
      { ...state, slices: [{ name: 's9', version: '1', family: 'X', ports: [], members: [], malformed: [] }] },
      { ...state, parts: 1e9 },
      { ...state, part: 7, parts: 3 },
      { ...state, kind: 'change' },
      { ...state, kind: 'change', gone: [1] },
      { ...state, kind: 'lead' },
      { ...state, kind: 'lead', isSynced: true, failure: 'none' },
      { ...state, kind: 'abdicate' },
    ];
    for (const member of [leader, follower]) for (const message of bad) member.watch.heard(7, message);
    await pod.pass(2_000);
    agree(pod);
    expect(pod.roles).toBe('own shared');
  });

  it('a flood of questions is answered now and then', async () => {
    const pod = await startPod(2);
    const [leader] = pod.all as [Member];
    pod.sent.length = 0;
    for (let question = 0; question < 10_000; question++) {
      leader.watch.heard(2, { protocol: 1, term: 1, seq: 0, kind: 'ask' });
    }
    expect(pod.sent.filter(({ kind }) => kind === 'state').length).toBeLessThanOrEqual(1);
  });

  it('many slices go in parts, and are taken over whole', async () => {
    const pod = new Pod();
    for (let index = 0; index < 1_000; index++)
      pod.truth.addresses.set(`t${index}`, `10.1.${index >> 8}.${index & 255}`);
    pod.add();
    pod.add();
    await pod.pass(200);
    agree(pod);
    expect(pod.sent.filter(({ kind }) => kind === 'state').length).toBe(21);
    expect(pod.members[1]?.told).toHaveLength(1);
  });

  it('one whose own thread was blocked reads what it was sent before it judges; a slow machine does not stop it for ever', async () => {
    const clock = new FakeClock();
    let lateByMs = 0;
    const missed: boolean[] = [];
    const slow = {
      now: () => clock.now() + lateByMs,
      timer: (fn: () => void, ms: number) => clock.timer(fn, ms),
      defer: (fn: () => void) => clock.defer(fn),
    };
    const beat = new Beat(slow, 1_000, (mayHaveMissed) => missed.push(mayHaveMissed));
    clock.advance(1_000);
    lateByMs = 6_000;
    clock.advance(1_000);
    clock.advance(1_000);
    for (let round = 0; round < 5; round++) {
      lateByMs += 600;
      clock.advance(1_000);
    }
    beat.close();
    expect(missed).toEqual([false, true, false, true, true, true, false, false]);
    expect(clock.timers).toBe(0);
  });

  it('who leads alone tells nobody, and who closes leaves no timer', async () => {
    const pod = await startPod(1);
    pod.truth.put('s2', '10.0.0.2');
    await pod.pass(5_000);
    expect(pod.sent).toEqual([]);
    pod.all[0]?.leave();
    expect(pod.clock.timers).toBe(0);
  });

  it('all leave one by one: the last one watches to the end', async () => {
    const pod = await startPod(4);
    for (const [index, member] of pod.all.entries()) {
      member.leave();
      pod.truth.put('s1', `10.0.9.${index + 1}`);
      await pod.pass(100);
      agree(pod);
      expect(pod.truth.watches).toBe(index === 3 ? 0 : 1);
    }
    expect(pod.truth.lists).toBe(1);
  });
});
