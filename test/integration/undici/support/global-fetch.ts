import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';

class Witness extends Agent {
  used = false;

  override dispatch(): boolean {
    this.used = true;
    throw new Error('this is all it is for');
  }
}

/** Whether `setGlobalDispatcher` of the undici under test reaches the fetch of this Node: that of Node 26 hears it from 7.27 on. */
async function probe(): Promise<boolean> {
  const former = getGlobalDispatcher();
  const witness = new Witness();
  setGlobalDispatcher(witness);
  try {
    // Were it to go out, there is nobody there.
    await fetch('http://127.0.0.1:9/').catch(() => {});
    return witness.used;
  } finally {
    setGlobalDispatcher(former);
    await witness.close();
  }
}

export const reachesGlobalFetch: boolean = await probe();
