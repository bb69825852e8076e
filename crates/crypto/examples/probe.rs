use boring_sys as b; use std::time::Instant; use std::ptr::*;
fn main(){ unsafe{
 let key=[7u8;32];
 for size in [16384usize, 65536, 262144, 1<<20, 10<<20, 100<<20] {
  let inp=vec![1u8;size]; let mut out=vec![2u8;size];
  let ctx=b::EVP_AEAD_CTX_new(b::EVP_aead_aes_256_gcm(),key.as_ptr(),32,16);
  let mut k: b::AES_KEY=std::mem::zeroed(); b::AES_set_encrypt_key(key.as_ptr(),256,&mut k);
  let n=[3u8;12]; let mut tag=[0u8;16]; let mut tl=0usize;
  let reps=(400<<20)/size;
  let t=Instant::now();
  for _ in 0..reps { b::EVP_AEAD_CTX_seal_scatter(ctx,out.as_mut_ptr(),tag.as_mut_ptr(),&mut tl,16,n.as_ptr(),12,inp.as_ptr(),size,null(),0,null(),0); }
  let g=t.elapsed().as_secs_f64(); let t=Instant::now();
  for _ in 0..reps { b::EVP_AEAD_CTX_seal_scatter(ctx,null_mut(),tag.as_mut_ptr(),&mut tl,16,n.as_ptr(),12,null(),0,null(),0,inp.as_ptr(),size); }
  let h=t.elapsed().as_secs_f64(); let t=Instant::now();
  for _ in 0..reps { let mut c=[0u8;16]; let mut r=[0u8;16]; let mut u=0u32; b::AES_ctr128_encrypt(inp.as_ptr(),out.as_mut_ptr(),size,&k,c.as_mut_ptr(),r.as_mut_ptr(),&mut u); }
  let c=t.elapsed().as_secs_f64(); let t=Instant::now();
  for _ in 0..reps { let mut i=0; let mut cc=[0u8;16]; let mut r=[0u8;16]; let mut u=0u32; while i<size { let s=(size-i).min(262144);  b::EVP_AEAD_CTX_seal_scatter(ctx,null_mut(),tag.as_mut_ptr(),&mut tl,16,n.as_ptr(),12,null(),0,null(),0,inp.as_ptr().add(i),s); i+=s;}
   b::AES_ctr128_encrypt(inp.as_ptr(),out.as_mut_ptr(),size,&k,cc.as_mut_ptr(),r.as_mut_ptr(),&mut u); }
  let two=t.elapsed().as_secs_f64(); let t=Instant::now();
  for _ in 0..reps { copy_nonoverlapping(inp.as_ptr(), out.as_mut_ptr(), size); std::hint::black_box(&out); }
  let m=t.elapsed().as_secs_f64();
  let f=|x:f64| (400.0/x) as u64; println!("{size:>10} gcm {} ghash {} ctr {} two-pass {} memcpy {}",f(g),f(h),f(c),f(two),f(m));
 }}}
