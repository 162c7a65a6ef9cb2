import { LiveBalancers } from '../observe/live-balancers.js';
import type { BalancerSnapshot } from './snapshot.js';

/** The balancers of this thread, for metrics and the admin page. The one thing balancers share. */
export const liveBalancers: LiveBalancers<BalancerSnapshot> = new LiveBalancers<BalancerSnapshot>();
