// Too many requests through the npm client `resend`. Started by ../run, which sets RESEND_BASE_URL and RESEND_API_KEY,
// for a server that lets a key ask twice a second.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused } from './answers.js';

const resend = new Resend(process.env.RESEND_API_KEY);

test('who asks too often is told so, and when to come back', async () => {
  const first = await resend.segments.list();
  ok(first);
  assert.equal(first.headers['ratelimit-limit'], '2');
  assert.match(first.headers['ratelimit-remaining'], /^[01]$/);
  let answer = first;
  for (let tries = 0; tries < 50 && answer.error === null; tries += 1) answer = await resend.segments.list();
  refused(answer, 429, 'rate_limit_exceeded');
  assert.equal(answer.headers['ratelimit-limit'], '2');
  assert.equal(answer.headers['ratelimit-remaining'], '0');
  assert.match(answer.headers['ratelimit-reset'], /^\d+$/);
  assert.match(answer.headers['ratelimit-policy'], /2/);
  const seconds = Number(answer.headers['retry-after']);
  assert.ok(seconds >= 1 && seconds <= 2, answer.headers['retry-after']);
  await new Promise((done) => setTimeout(done, seconds * 1000));
  ok(await resend.segments.list());
});

test('a mail that was refused is not sent', async () => {
  const mail = { from: 'Acme <hello@example.com>', to: 'delivered@resend.dev', subject: 'Hello', text: 'x' };
  const sent = [];
  let answer;
  do {
    answer = await resend.emails.send(mail);
    if (answer.error === null) sent.push(answer.data.id);
  } while (answer.error === null && sent.length < 50);
  refused(answer, 429, 'rate_limit_exceeded');
  await new Promise((done) => setTimeout(done, Number(answer.headers['retry-after']) * 1000));
  const listed = ok(await resend.emails.list());
  assert.deepEqual(listed.data.map(({ id }) => id).sort(), sent.sort());
});
