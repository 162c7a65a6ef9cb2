import type { ObserverEvents } from 'evenkeel';
import { createCertificate } from '../../../servers/index.js';
import { Cluster } from './cluster.js';
import { PROOF } from './proof.js';
import { type Send, Tally } from './traffic.js';

const PODS = PROOF ? 4 : 2;
/** Requests at a steady pace, whatever becomes of the answers. */
const EVERY_MS = 10;
/** More at once than there are connections, so that some have to be opened. */
const BURST = 24;
const BURSTS = 10;

export const certificate: { readonly cert: string; readonly key: string } = createCertificate({
  hosts: ['orders.shop'],
});

/** A client of the cluster: how it sends, and where its attempts are told. */
export interface RolloutClient {
  readonly send: Send;
  readonly attempts: readonly ObserverEvents['attemptEnded'][];
}

/** What became of the requests of a rolling update. */
export interface RolloutWaits {
  readonly failures: readonly string[];
  /** Connections to pods that had stopped taking any, of which each has a request that waited for it. */
  readonly held: number;
  /** Attempts that went elsewhere because their pod left. */
  readonly moved: number;
  /** Attempts that waited for a connection until that failed. */
  readonly waited: readonly string[];
}

/**
 * An open loop of requests through a rolling update, of pods that take no further connection from the moment they are told
 * to leave, which their slice says a little later. Requests come in bursts meanwhile, so that connections are wanted.
 */
export async function rolloutWaits(cluster: Cluster, { send, attempts }: RolloutClient): Promise<RolloutWaits> {
  const tally = new Tally(send);
  const calls: Promise<void>[] = [];
  let sent = 0;
  const call = (): void => void calls.push(tally.call(sent % 2 === 0 ? 'POST' : 'GET', `call-${sent++}`));
  const pace = setInterval(call, EVERY_MS);
  let held = 0;
  for (const old of cluster.pods) {
    await cluster.addPod();
    await old.hold();
    for (let burst = 0; burst < BURSTS && (await old.stats()).held === 0; burst++) {
      for (let count = 0; count < BURST; count++) call();
    }
    held += (await old.stats()).held;
    await cluster.endPod(old);
  }
  clearInterval(pace);
  await Promise.all(calls);
  return {
    failures: [...tally.failed('GET'), ...tally.failed('POST')].map(({ id, failure }) => `${id}: ${failure}`),
    held,
    moved: attempts.filter(({ outcome, retrying }) => outcome.kind === 'not-started' && retrying).length,
    waited: attempts.filter(({ outcome }) => outcome.cause === 'connect').map(({ error }) => String(error)),
  };
}

export const startRollout = (): Promise<Cluster> => Cluster.start(PODS, { tls: certificate });
