// A grant for whoever asks: an app is registered and the person of ./person.js lets it in.

import { createHash, randomBytes } from 'node:crypto';
import { person } from './person.js';

const base = process.env.RESEND_BASE_URL;
const redirect = 'http://localhost:33418/callback';

export async function grant() {
  const registration = await fetch(`${base}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ client_name: 'An app', redirect_uris: [redirect], token_endpoint_auth_method: 'none' }),
  });
  const { client_id } = await registration.json();
  const verifier = randomBytes(32).toString('base64url');
  const url = new URL(`${base}/oauth/authorize`);
  url.search = new URLSearchParams({
    client_id,
    response_type: 'code',
    redirect_uri: redirect,
    scope: 'full_access',
    state: 'of mind',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  const code = new URL(await person(url)).searchParams.get('code');
  const answer = await fetch(`${base}/oauth/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'authorization_code', code, redirect_uri: redirect, client_id, code_verifier: verifier }),
  });
  return (await answer.json()).access_token;
}
