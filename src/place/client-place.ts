/** The position of one client among all clients of a Service. */
export interface ClientPlace {
  /** The number of this client, from 0 to below `count`. */
  readonly index: number;
  readonly count: number;
}

/** One reason why there are several clients: pods, processes, workers or threads. */
export interface PlaceSource {
  /** The place of this client; undefined while it is not known. */
  readonly place: ClientPlace | undefined;
  close(): void;
}
