// The user of the clients under test: ../../person.py, which logs in and answers the consent page.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

// Where the browser is sent at last, as the server wrote it.
export async function person(url, ...options) {
  const { stdout } = await promisify(execFile)(process.env.PERSON, [...options, String(url)]);
  return stdout.trim();
}
