import { loadReportFormatHeader, loadReportHeader } from '../load/orca.js';
import type { LoadReporter } from './load-reporter.js';
import type { RequestCount } from './request-count.js';

/** The trailer with a report. */
const TRAILER = `${loadReportHeader}-bin`;
/** Codes of gRPC that say the server failed: UNKNOWN, INTERNAL, UNAVAILABLE, DATA_LOSS. */
const failures: ReadonlySet<number> = new Set([2, 13, 14, 15]);

/** What is used of grpc-js, which is not imported: its own classes come with each call. */
interface Metadata {
  get(name: string): unknown[];
  set(name: string, value: string | Buffer): void;
}

interface Listener {
  onReceiveMetadata(metadata: Metadata): void;
  onCancel(): void;
}

interface Status {
  readonly code: number;
  readonly metadata?: Metadata | null;
}

interface ServerCall {
  start(listener: Listener): void;
  sendStatus(status: Status): void;
  getMetricsRecorder?(): { recordNamedMetric(name: string, value: number): void };
}

/**
 * Counts a call of a grpc-js server, and has its status carry a report if the call asks for one. The call is changed in place:
 * calls of later versions may have more methods than those known here.
 */
export function countGrpcCall(call: ServerCall, count: RequestCount, reporter: LoadReporter | undefined): void {
  const { start, sendStatus } = call;
  /** Of the request; undefined until it has come. */
  let asked: Metadata | undefined;
  let isOpen = false;
  const over = (failed: boolean): void => {
    if (!isOpen) return;
    isOpen = false;
    count.ended(failed);
  };
  call.start = (listener) => {
    const { onReceiveMetadata, onCancel } = listener;
    listener.onReceiveMetadata = (metadata) => {
      if (asked === undefined) {
        asked = metadata;
        isOpen = true;
        count.began();
      }
      onReceiveMetadata.call(listener, metadata);
    };
    // Called at the end of every call, not only of those that are cancelled.
    listener.onCancel = () => {
      over(false);
      onCancel.call(listener);
    };
    start.call(call, listener);
  };
  call.sendStatus = (status) => {
    const isAsked =
      isOpen && reporter !== undefined && asked !== undefined && asked.get(loadReportFormatHeader).length > 0;
    const told = isAsked ? withReport(status, asked as Metadata, reporter as LoadReporter) : status;
    over(failures.has(status.code));
    sendStatus.call(call, told);
  };
}

/** The status with a report among its trailers. The application's own metadata is left as it is. */
function withReport(status: Status, asked: Metadata, reporter: LoadReporter): Status {
  const { metadata } = status;
  // The application reports itself.
  if (metadata != null && metadata.get(TRAILER).length > 0) return status;
  const own = metadata == null ? new (asked.constructor as new () => Metadata)() : clone(metadata);
  own.set(TRAILER, reporter.message());
  return { ...status, metadata: own };
}

function clone(metadata: Metadata): Metadata {
  return (metadata as Metadata & { clone(): Metadata }).clone();
}
