/** How many endpoints' numbers fit into the first array. Each further array has room for twice as many as the last, up to `MAX_CELLS`. */
const FIRST_CELLS = 8;
const MAX_CELLS = 1_024;

/** Where the numbers that a load keeps about one endpoint are: in `numbers`, from index `at` on. All are 0 at first. */
export interface Cell {
  readonly numbers: Float64Array;
  readonly at: number;
}

/** The cell for loads that keep no numbers of their own about endpoints. */
export const noCell: Cell = { numbers: new Float64Array(0), at: 0 };

/**
 * Stores what a load knows about each endpoint. As fields of an object, fractions would be separate heap objects, and with thousands of
 * endpoints a pick would mostly wait for memory; here the numbers of one endpoint are adjacent. A cell is never reused: its array is freed
 * with the last of its endpoints.
 */
export class Cells {
  readonly #fields: number;
  #numbers: Float64Array;
  #taken = 0;

  /** @param fields Numbers per endpoint, at least 1. */
  constructor(fields: number) {
    this.#fields = fields;
    this.#numbers = new Float64Array(0);
  }

  take(): Cell {
    if (this.#taken === this.#numbers.length) {
      const cells = Math.min(MAX_CELLS, Math.max(FIRST_CELLS, (2 * this.#numbers.length) / this.#fields));
      this.#numbers = new Float64Array(cells * this.#fields);
      this.#taken = 0;
    }
    const cell = { numbers: this.#numbers, at: this.#taken };
    this.#taken += this.#fields;
    return cell;
  }
}
