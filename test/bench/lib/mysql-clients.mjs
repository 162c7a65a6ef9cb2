/** The ways to reach several MySQL servers that are compared. */
import { connect } from 'node:net';
import { roundRobin } from 'evenkeel';
import { createPoolCluster } from 'evenkeel/mysql2';
import { FakeResolver } from 'evenkeel/testing';
import mysql from 'mysql2/promise';
import { application } from '../../support/databases/mariadb/servers.mjs';

/** Connections to each server at most: more than the callers need. A server whose connections are all in use is passed over. */
export const CONNECTIONS = 20;

/** @typedef {{ readonly address: string, readonly port: number }} Address */

/**
 * @typedef {object} MysqlClient
 * @property {(sql: string) => Promise<any>} query resolves to rows and fields, as mysql2/promise does
 * @property {(addresses: readonly Address[]) => void} update tells it, if anybody does, which servers there are now
 * @property {() => Promise<unknown>} close
 */

const common = { ...application, connectionLimit: CONNECTIONS };

/** A pool for each server and a counter. @param {readonly Address[]} addresses @returns {MysqlClient} */
export function handLoop(addresses) {
  const pools = addresses.map(({ address, port }) => mysql.createPool({ ...common, host: address, port }));
  let turn = 0;
  return {
    query: (sql) => /** @type {mysql.Pool} */ (pools[turn++ % pools.length]).query(sql),
    update() {},
    close: () => Promise.all(pools.map((pool) => pool.end())),
  };
}

/** @param {readonly Address[]} addresses @param {Partial<import('evenkeel/mysql2').PoolClusterOptions>} [options] @returns {MysqlClient} */
export function evenkeel(addresses, options = {}) {
  const resolver = new FakeResolver();
  resolver.update(...addresses);
  const cluster = createPoolCluster({ ...common, resolver, idempotent: true, ...options });
  return {
    query: (sql) => cluster.query(sql),
    update: (now) => resolver.update(...now),
    close: () => cluster.end(),
  };
}

/** The same, in turn. @param {readonly Address[]} addresses */
export const evenkeelInTurn = (addresses) => evenkeel(addresses, { picker: roundRobin() });

/**
 * mysql2's own, told of its servers once. @param {readonly Address[]} addresses
 * @param {import('mysql2').PoolClusterOptions} [options] @returns {MysqlClient}
 */
export function poolCluster(addresses, options = {}) {
  const cluster = mysql.createPoolCluster(options);
  for (const { address, port } of addresses) cluster.add(`${address}:${port}`, { ...common, host: address, port });
  const all = cluster.of('*');
  return { query: (sql) => all.query(sql), update() {}, close: () => cluster.end() };
}

/**
 * One pool behind the Service's address: for each new connection a server at random, for good. What kube-proxy does, at no
 * cost to anybody. @param {readonly Address[]} addresses @returns {MysqlClient}
 */
export function onePool(addresses) {
  let now = addresses;
  const anyServer = () => {
    const { address, port } = /** @type {Address} */ (now[Math.floor(Math.random() * now.length)]);
    return connect({ host: address, port, noDelay: true });
  };
  const pool = mysql.createPool({ ...common, connectionLimit: addresses.length * CONNECTIONS, stream: anyServer });
  return {
    query: (sql) => pool.query(sql),
    // The Service's rules follow its endpoints; connections that are open stay where they are.
    update: (later) => {
      now = later;
    },
    close: () => pool.end(),
  };
}
