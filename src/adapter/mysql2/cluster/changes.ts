/** Lets others wait for the next change of a service's servers. */
export class Changes {
  #waiting: (() => void)[] = [];

  happened(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}
