import type { LoadReport } from '../../index.js';
import {
  type AskForReports,
  addressMark,
  type CallLease,
  connectionMark,
  loadReportHeader,
  parseLoadReport,
  type RefusalCheck,
  ReportAsking,
  reportsHeader,
} from '../kit/index.js';

/** Reads a response header by its lower-case name. */
export type HeaderOf = (name: string) => unknown;

/** The load report in a header of an HTTP response; undefined if there is none, or if it is invalid. */
export function reportOf(header: unknown): LoadReport | undefined {
  return typeof header === 'string' ? parseLoadReport(header) : undefined;
}

/** The part of a socket that identifies its connection. Everything is undefined while the socket connects and after it was closed. */
export interface ConnectedSocket {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localPort?: number | undefined;
}

/** What a pod says about itself in the heads of its responses, and whether it is believed. One per connection of a balancer to a pod. */
export class PodSignals implements RefusalCheck {
  readonly #sockets: () => Iterable<ConnectedSocket>;
  readonly #asking = new ReportAsking();
  #isDoubted = false;

  /** @param sockets Returns the open sockets to the pod. */
  constructor(sockets: () => Iterable<ConnectedSocket>) {
    this.#sockets = sockets;
  }

  /** Decides whether the next request to the pod asks for a load report, and counts that request. */
  asks(rule: AskForReports): boolean {
    return this.#asking.next(rule);
  }

  /**
   * Reads what the head of a response says about the pod's load. What a server behind the pod announces does not count.
   *
   * @returns The load report, of which `lease` was notified; undefined if there is none, or if it is invalid.
   */
  hear(lease: CallLease<unknown>, header: HeaderOf): LoadReport | undefined {
    const announced = header(reportsHeader);
    if (announced !== undefined && announced === addressMark(lease.endpoint.address, lease.endpoint.port)) {
      this.#asking.announced();
    }
    const report = reportOf(header(loadReportHeader));
    if (report === undefined) return undefined;
    this.#asking.reported();
    lease.reported(report);
    return report;
  }

  /**
   * Whether `mark` is that of a connection to the pod. A pod that sends another mark is not believed again: it passes on the headers of a
   * server behind it, which could otherwise try one port after the other.
   */
  hasNotBegun(mark: unknown): boolean {
    if (mark === undefined || this.#isDoubted) return false;
    for (const { remoteAddress, remotePort, localPort } of this.#sockets()) {
      if (remoteAddress === undefined || remotePort === undefined || localPort === undefined) continue;
      if (mark === connectionMark(remoteAddress, remotePort, localPort)) return true;
    }
    this.#isDoubted = true;
    return false;
  }

  /** No connection to the pod is open any longer. Another pod may take over this address, so what the pod announced is forgotten. */
  forget(): void {
    this.#asking.forget();
  }
}
