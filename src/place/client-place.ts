/** The position of one client among all clients of a Service. */
export interface ClientPlace {
  /** From 0 to below `count`. */
  readonly index: number;
  readonly count: number;
}

/** One reason why there are several clients: pods, processes, workers or threads. */
export interface PlaceSource {
  /** The place; undefined while it is not known. */
  readonly place: ClientPlace | undefined;
  close(): void;
}
