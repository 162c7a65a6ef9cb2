import { Connection, createPoolCluster } from 'mysql2';

/** What the mysql2 under test can do: the matrix runs these tests with older ones, too. */

/** 3.22 and newer tidy up a session that is given back. */
export const canReset: boolean = 'reset' in Connection.prototype;

/** 3.12 and newer take nodes out of a PoolCluster again, without which a Service cannot be followed. */
export const canRemove: boolean = typeof createPoolCluster().remove === 'function';
