import { type ObserverEvents, roundRobin, staticEndpoints, without } from 'evenkeel';
import type { DispatcherOptions, ServiceDispatcher } from 'evenkeel/undici';
import type { Pods } from '../../../support/pods/pods.js';

/** An attempt a dispatcher told of. */
export type Attempt = ObserverEvents['attemptEnded'];

/** Options for `pods` in turn; every attempt is told of. No verdicts: which pod is tried must not depend on what happened before. */
export const watched = (
  attemptEnded: (attempt: Attempt) => void,
  pods: Pods,
  options: DispatcherOptions,
): DispatcherOptions => ({
  resolver: staticEndpoints(pods.endpoints),
  stages: [without('conditions', 'outlierEjection', 'pushback', 'panic')],
  picker: roundRobin(),
  observer: { attemptEnded },
  ...options,
});

/** Requests running on all pods. */
export const inFlightOf = ({ balancer }: ServiceDispatcher): number =>
  balancer.snapshot().endpoints.reduce((sum, { inFlight }) => sum + inFlight, 0);
